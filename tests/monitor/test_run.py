import copy
import io

import pytest
import torch

import netdyno
from netdyno.errors import NetdynoError
from netdyno.monitor.exporters._base import Exporter
from netdyno.records.journal import Alert
from netdyno.store.journal import runs

UPDATES = 60


def train(seed=0, updates=UPDATES, watch=None):
    """A little training; weights and losses of it. With `watch`, under netdyno.watch with these settings."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(64, 6)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, x[:, :3].argmax(1)), batch_size=16, shuffle=True
    )
    losses = []
    seen = netdyno.watch(model, optimizer, **watch) if watch is not None else None
    if seen is not None:
        seen.start()
    while len(losses) < updates:
        for a, b in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    if seen is not None:
        seen.stop()
    return losses, copy.deepcopy(model.state_dict()), seen


@pytest.mark.parametrize("everything", [False, True])
def test_training_is_the_same_to_the_last_bit_and_torch_as_it_was(tmp_path, everything):
    before = torch.nn.Module.__call__, torch.Tensor.item, torch.autograd.backward
    losses, weights, _ = train()
    again, watched, seen = train(watch={"store": tmp_path, "everything": everything, "quiet": True})
    assert again == losses
    assert all(torch.equal(weight, watched[name]) for name, weight in weights.items())
    assert seen.updates == UPDATES
    assert seen.observer.troubles == []
    assert (torch.nn.Module.__call__, torch.Tensor.item, torch.autograd.backward) == before


def test_the_journal_holds_each_loss_and_how_the_run_ended(tmp_path):
    losses, _, seen = train(watch={"store": tmp_path, "run": "digits", "stage": "optim", "quiet": True})
    (run,) = runs(tmp_path)
    assert run.info.name == "digits"
    assert run.info.tags == {"stage": "optim"}
    assert run.series("loss").values.tolist() == losses
    assert run.series("loss").updates.tolist() == list(range(1, UPDATES + 1))
    assert {"updates_per_second", "phase/forward"} <= set(run.names())
    assert run.end["reason"] == "ended"
    assert run.end["updates"] == UPDATES
    assert seen.costs()["looks_s"]


def test_a_run_that_fails_says_so_and_fails_as_it_would(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with netdyno.watch(store=tmp_path, quiet=True):
            raise ZeroDivisionError
    (run,) = runs(tmp_path)
    assert run.end["reason"] == "failed"
    assert "ZeroDivisionError" in run.end["says"]


def test_own_values_stand_beside_the_others(tmp_path):
    with netdyno.watch(store=tmp_path, quiet=True) as seen:
        seen.point("temperature", 3.0)
        seen.evaluated(loss=0.5, accuracy=0.9)
    (run,) = runs(tmp_path)
    assert run.series("temperature").values.tolist() == [3.0]
    assert run.series("evaluation/accuracy").values.tolist() == [0.9]


def test_a_watch_within_a_watch_writes_what_it_is_told(tmp_path):
    with (
        netdyno.watch(store=tmp_path, quiet=True, run="outer"),
        netdyno.watch(store=tmp_path, quiet=True, run="inner") as seen,
    ):
        assert seen.observer is None
        seen.point("temperature", 3.0)
    assert {run.info.name for run in runs(tmp_path)} == {"outer", "inner"}
    assert all(run.end["reason"] == "ended" for run in runs(tmp_path))


@pytest.mark.parametrize("wrong", [{"stage": "training"}, {"require_tag": True}, {"budget": 0.0}, {"budget": 2}])
def test_what_cannot_be_is_refused_in_three_lines(tmp_path, wrong):
    with pytest.raises(NetdynoError) as raised:
        netdyno.watch(store=tmp_path, **wrong)
    assert raised.value.hint


@pytest.mark.parametrize("tagged", [{"stage": "optim"}, {"tags": {"data": "v3"}}])
def test_where_a_tag_is_required_one_is_enough(tmp_path, tagged):
    with netdyno.watch(store=tmp_path, require_tag=True, quiet=True, **tagged):
        pass
    (run,) = runs(tmp_path)
    assert run.info.tags


def test_checkpoints_do_not_carry_the_watch_with_them(tmp_path):
    model = torch.nn.Linear(2, 2)
    with netdyno.watch(model, store=tmp_path, quiet=True):
        model(torch.ones(1, 2)).sum().backward()
        torch.save(model, io.BytesIO())


def test_a_run_is_handed_on_while_it_goes_on(tmp_path):
    class Kept(Exporter):
        def begin(self, run):
            self.told = [run.info.name]

        def take(self, news):
            self.told += news.series

        def close(self, state):
            self.told.append(state)

    kept = Kept("")
    with netdyno.watch(store=tmp_path, quiet=True, run="digits", export=[kept]) as seen:
        seen.point("temperature", 3.0)
    assert kept.told[0] == "digits"
    assert "temperature" in kept.told
    assert kept.told[-1] == "ended"


def test_an_exporter_that_nobody_knows_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(NetdynoError, match="no such exporter"):
        netdyno.watch(store=tmp_path, export=["telegraph"])
    assert not list(tmp_path.iterdir())


def test_a_sink_that_fails_stands_in_the_journal(tmp_path):
    def broken(alert):
        raise OSError("no line")

    alert = Alert(cause="planted", severity="warning", says="planted", update=1, seconds=0.0)
    with netdyno.watch(store=tmp_path, quiet=True, alerts=[broken]) as seen:
        assert seen.alert(alert)
        assert not seen.alert(alert)
    events, _ = next(runs(tmp_path)).events()
    assert any(event["kind"] == "trouble" and "no line" in event["says"] for event in events)
