import copy

import pytest
import torch
from tests.monitor.loops import data, finite, net, plain_step, train

import netdyno
from netdyno.monitor.pause import TripStop
from netdyno.monitor.pulse import Pulse
from netdyno.monitor.replay import replay
from netdyno.monitor.snapshot import restore
from netdyno.monitor.subject import Subject
from netdyno.store.journal import runs


@pytest.fixture(autouse=True)
def no_doctor(monkeypatch):
    """The rules have tests of their own, and read the whole script each time."""
    monkeypatch.setattr(Pulse, "examine", lambda _pulse: None)


def stops(store, **settings):
    with pytest.raises(TripStop) as raised:
        train(store, on_trip="stop", **settings)
    return str(raised.value)


def snapshot_of(ran):
    (path,) = {alert.snapshot for alert in ran.trips.values() if alert.snapshot}
    return path


def nan_input(at=20):
    def before(update, _model, _optimizer, batch):
        x = batch[0].clone()
        if update == at:
            x[3, 2] = float("nan")
        return [x, batch[1]]

    return before


def nan_gradient(at=20, parameter=0, value=float("nan")):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        step.update += 1
        if step.update == at + 1:
            list(model.parameters())[parameter].grad[0] = value
        optimizer.step()
        return loss.item()

    step.update = 0
    return step


# what breaks


def test_a_loss_that_is_no_number_is_told_with_the_row_that_is_to_blame_before_the_weights_are_spoiled(tmp_path):
    model = net()
    says = stops(tmp_path, model=model, before=nan_input())
    (run,) = runs(tmp_path)
    alerts = [event["alert"] for event in run.events()[0] if event["kind"] == "alert"]
    (alert,) = [alert for alert in alerts if alert["severity"] == "trip"]
    assert alert["cause"] == "loss-not-finite"
    assert alert["update"] == 21
    assert alert["where"]["sample"] == 3
    assert "the input" in says
    assert finite(model.state_dict())
    assert run.end["reason"] == "stopped"
    assert "the loss is NaN" in run.end["says"]


@pytest.mark.parametrize(("parameter", "name"), [(0, "0.weight"), (1, "0.bias"), (2, "3.weight"), (3, "3.bias")])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_gradient_that_is_no_number_is_named(tmp_path, parameter, name, value):
    model = net()
    says = stops(tmp_path, model=model, step=nan_gradient(parameter=parameter, value=value))
    assert f"the gradient of `{name}` is not finite" in says
    assert finite(model.state_dict())


@pytest.mark.parametrize(
    ("bad", "told"),
    [(17, "the gradient of `0.bias` is not finite, the first of 2"), (21, "a gradient is not finite")],
)
def test_what_is_no_number_is_seen_though_clipping_spreads_it_and_named_where_gradients_were_looked_at_before(
    tmp_path, bad, told
):
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.clone()

        @staticmethod
        def backward(_, gradient):
            return gradient * float("nan") if step.update == bad else gradient

    def step(model, optimizer, batch):
        step.update += 1
        optimizer.zero_grad()
        hidden = Bad.apply(model[0](batch[0]))
        loss = torch.nn.functional.cross_entropy(model[1:](hidden), batch[1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    step.update = 0
    model = net()
    says = stops(tmp_path, model=model, step=step)
    assert told in says
    assert finite(model.state_dict())


def test_a_learning_rate_a_thousand_times_too_large_is_an_explosion(tmp_path):
    def before(update, _model, optimizer, batch):
        optimizer.param_groups[0]["lr"] = 0.05 if update < 100 else 50.0
        return batch

    model = net()
    says = stops(tmp_path, model=model, before=before, updates=200)
    assert "usual was" in says
    assert finite(model.state_dict())


def test_an_explosion_from_the_first_update_on_is_told_before_it_is_infinite(tmp_path):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch[0]), torch.nn.functional.one_hot(batch[1], 3).float())
        loss.backward()
        optimizer.step()
        return loss.item()

    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Linear(16, 3))
    says = stops(tmp_path, model=model, step=step, make=lambda m: torch.optim.SGD(m.parameters(), lr=100.0))
    assert "never more than" in says
    assert finite(model.state_dict())


def test_half_precision_that_overflows_is_told(tmp_path):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        logits = model(batch[0]).half() * (1.0 if step.update < 20 else 1e6)
        step.update += 1
        loss = torch.nn.functional.cross_entropy(logits.float(), batch[1])
        loss.backward()
        optimizer.step()
        return loss.item()

    step.update = 0
    ran = train(tmp_path, step=step)
    assert "loss-not-finite" in ran.trips


def test_a_loss_scale_that_collapses_is_told_and_skips_that_end_are_not(tmp_path):
    def with_scaler(forever):
        scaler = torch.amp.GradScaler("cpu")

        def step(model, optimizer, batch):
            optimizer.zero_grad()
            step.update += 1
            loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
            if 10 < step.update <= (90 if forever else 18):
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.item()

        step.update = 0
        return step

    assert train(tmp_path / "ends", step=with_scaler(False), updates=90).trips == {}
    model = net()
    says = stops(tmp_path / "stays", model=model, step=with_scaler(True), updates=90)
    assert "40 steps in a row" in says
    assert finite(model.state_dict())


def test_an_evaluation_that_diverges_is_told(tmp_path):
    ran = train(tmp_path, updates=8)
    for loss in (0.9, 0.5, 0.4, 0.45, 0.41, 9.0, 30.0, 28.0):
        ran.watch.wires.evaluated({"val_loss": loss, "accuracy": float("nan")})
    assert "validation-diverging" in ran.watch.alerts.told
    assert ran.watch.alerts.told["validation-diverging"].because["best"] == pytest.approx(0.4)


def test_a_loader_that_gives_no_batch_is_told_from_beside_and_nothing_is_touched(tmp_path):
    def before(update, _model, _optimizer, batch):
        if update == 12:  # as the pulse would see it: somebody fetches, and nothing comes
            wires, observer = before.watch.wires, before.watch.observer
            observer.fetching = True
            for _ in range(40):
                wires.tick(1.0)
            observer.fetching = False
        return batch

    made = netdyno.watch

    def watch(*args, **settings):
        before.watch = made(*args, **settings)
        return before.watch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(netdyno, "watch", watch)
        ran = train(tmp_path, before=before, updates=15, on_trip="stop")
    assert list(ran.trips) == ["stalled-loader"]
    assert "no batch has come for" in ran.trips["stalled-loader"].says
    assert ran.trips["stalled-loader"].snapshot is None


# what happens then


def test_a_cause_is_told_once_and_the_run_goes_on(tmp_path):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        (torch.nn.functional.cross_entropy(model(batch[0]), batch[1]) * float("nan")).backward()
        optimizer.step()

    ran = train(tmp_path, step=step)
    assert list(ran.trips) == ["loss-not-finite"]
    assert len(list((tmp_path / "journal").glob("*/snapshots/*.pt"))) == 1


def test_a_paused_run_goes_on_when_it_is_told_and_may_leave_the_update_out(tmp_path, capsys):
    model = net()

    def before(update, given, optimizer, batch):
        if update == 0:
            (folder,) = (tmp_path / "journal").iterdir()
            (folder / "resume").write_text("skip")
        return nan_input()(update, given, optimizer, batch)

    # With "skip" the gradients of the bad batch are thrown away, and nothing is spoiled.
    ran = train(tmp_path, on_trip="pause", model=model, before=before, updates=22)
    assert list(ran.trips) == ["loss-not-finite"]
    assert finite(model.state_dict())
    assert "to go on: touch" in capsys.readouterr().err
    (run,) = runs(tmp_path)
    assert [event["how"] for event in run.events()[0] if event["kind"] == "resumed"] == ["skip"]


def test_what_stops_before_a_step_leaves_the_script_as_it_is(tmp_path):
    model = net()
    stops(tmp_path, model=model, before=nan_input())
    ran = train(tmp_path, model=model, updates=10)  # and one can go on to train
    assert ran.trips == {}


# to continue from, and to see again


def step_for(model, optimizer):
    return lambda batch: plain_step(model, optimizer, batch)


def test_a_snapshot_holds_the_state_before_the_update_and_replays_to_the_last_bit(tmp_path):
    held = {}

    def before(update, model, optimizer, batch):
        if update == 20:
            held["model"] = copy.deepcopy(model.state_dict())
            held["optimizer"] = copy.deepcopy(optimizer.state_dict())
        return batch

    def step(model, optimizer, batch):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        loss.backward()
        if step.update == 20:
            model[0].weight.grad[0, 0] = float("nan")
        step.update += 1
        optimizer.step()
        return loss.item()

    step.update = 0
    ran = train(tmp_path, model=net(norm=True, dropout=0.3), before=before, step=step, updates=21)
    path = snapshot_of(ran)
    torch.load(path, weights_only=True)
    model = net(norm=True, dropout=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7)
    subject = Subject.of(model, optimizer)
    found = restore(path, subject)
    assert (found.update, found.cause, found.parameter, found.exact) == (20, "gradients-not-finite", "0.weight", True)
    assert (found.epoch, found.batch_in_epoch) == (6, 1)
    assert all(torch.equal(one, model.state_dict()[name]) for name, one in held["model"].items())
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.1
    kept = optimizer.state_dict()["state"]
    assert all(
        torch.equal(one["momentum_buffer"], kept[at]["momentum_buffer"])
        for at, one in held["optimizer"]["state"].items()
    )
    step.update = 20
    again = replay(path, subject, lambda batch: step(model, optimizer, batch))
    assert (again.reproduced, again.exact, again.parameter) == (True, True, "0.weight")
    step.update = 0  # without the fault it does not happen again, and the loss is the same
    well = replay(path, subject, lambda batch: step(model, optimizer, batch))
    assert (well.reproduced, well.exact) == (False, True)


def test_a_bad_batch_is_seen_again_and_the_operation_is_named(tmp_path):
    x = torch.randn(64, 6)
    x[37, 2] = float("nan")
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, torch.zeros(64, dtype=torch.long)), batch_size=16
    )
    model = net(norm=True)
    ran = train(tmp_path, model=model, loader=loader)
    assert ran.trips["loss-not-finite"].update == 3
    model = net(norm=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    subject = Subject.of(model, optimizer)
    again = replay(snapshot_of(ran), subject, step_for(model, optimizer), anomaly=True)
    assert (again.reproduced, again.exact) == (True, True)
    assert finite(model.state_dict()), "statistics of the batch norm are those before the bad batch"


def test_anomaly_mode_names_the_operation_whose_gradient_is_no_number(tmp_path):
    def step(model, optimizer, batch):
        optimizer.zero_grad()
        loss = torch.sqrt((model(batch[0]) * 0.0).abs()).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    ran = train(tmp_path, step=step, updates=2)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    again = replay(
        snapshot_of(ran), Subject.of(model, optimizer), lambda batch: step(model, optimizer, batch), anomaly=True
    )
    assert again.reproduced
    assert again.operation == "AbsBackward0"  # the root's slope is infinite, and times nothing that is no number
    assert again.line is not None
    assert again.line.startswith(__file__)
    assert again.slower > 0


def test_what_a_model_was_given_is_the_batch_where_there_is_no_loader(tmp_path):
    class Own:
        def __iter__(self):
            yield from (
                [torch.full((4, 6), float(at) if at < 2 else float("nan")), torch.tensor([0, 1, 2, 0])]
                for at in range(3)
            )

    ran = train(tmp_path, loader=Own(), updates=3)
    found = torch.load(snapshot_of(ran), weights_only=True)
    assert found["batches_from"] == "call"
    assert bool(torch.isnan(found["batches"][0][0]).all())


def test_all_batches_of_an_accumulated_update_are_kept(tmp_path):
    def step(model, optimizer, batch):
        loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
        if step.at == 9:
            loss = loss * float("nan")
        loss.backward()
        step.at += 1
        if step.at % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    step.at = 0
    ran = train(tmp_path, step=step, updates=12)
    assert len(torch.load(snapshot_of(ran), weights_only=True)["batches"]) == 4


# what does not break


def test_training_is_the_same_to_the_last_bit_also_where_a_snapshot_was_taken(tmp_path):
    def weights(store, **settings):
        model = net(norm=True, dropout=0.2)
        train(store, model=model, seed=3, updates=30, **settings)
        return model.state_dict()

    torch.manual_seed(5)
    first = weights(tmp_path / "a")
    torch.manual_seed(5)
    second = weights(tmp_path / "b", step=shouts)
    assert list((tmp_path / "b").rglob("*.pt"))
    assert all(torch.equal(one, second[name]) for name, one in first.items())


def shouts(model, optimizer, batch):
    """A loss that is not differentiated by the step's gradients: an explosion that is none of the weights'."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    gradient = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    (loss * float("inf")).backward(retain_graph=True)
    for parameter, one in zip(model.parameters(), gradient, strict=True):
        parameter.grad = one
    optimizer.step()
    return loss.item()


def test_the_data_loader_of_an_evaluation_is_not_the_batch_of_training(tmp_path):
    other = data(seed=2)

    def before(update, model, optimizer, batch):
        if update % 5 == 0:
            model.eval()
            with torch.no_grad():
                for x, _ in other:
                    model(x)
            model.train()
        return nan_input(20)(update, model, optimizer, batch)

    ran = train(tmp_path, before=before)
    assert len(torch.load(snapshot_of(ran), weights_only=True)["batches"]) == 1
