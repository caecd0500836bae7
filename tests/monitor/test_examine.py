"""What is told of a run while it goes on, and what only when it is over."""

import torch

import netdyno
from netdyno.monitor.examine import UNFINISHED, alerts, examined
from netdyno.store.journal import runs


def crept(folder, *, updates, seen=None):
    """Training at a rate that is far too low."""
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = (x @ torch.randn(8, 3)).argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-4)
    watch = netdyno.watch(model, optimizer, store=folder, quiet=True).start()
    for _ in range(updates):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    if seen is not None:
        watch.tell_ride()
        seen += examined(watch.journal.folder)
    watch.stop()


def told(outcomes):
    return {alert.cause for alert in alerts(outcomes, update=1, seconds=1.0)}


def test_how_a_training_goes_is_suspected_while_it_goes_on_and_found_when_it_is_over(tmp_path):
    while_it_goes_on = []
    crept(tmp_path, updates=400, seen=while_it_goes_on)
    (run,) = runs(tmp_path)
    late = {o.rule for o in examined(run.folder) if o.state == "found" and o.finding.stage == "settings"}
    early = {o.rule for o in while_it_goes_on if o.state == "found"}
    assert not early & late
    assert all(o.reason == UNFINISHED for o in while_it_goes_on if o.rule in late and o.state == "suspected")
    assert "learning-rate-too-low" in told(examined(run.folder))


def test_a_killed_run_is_examined_like_one_that_goes_on(tmp_path):
    crept(tmp_path, updates=400)
    (run,) = runs(tmp_path)
    for file in (run.folder / "ride").iterdir():
        file.write_bytes(
            b"".join(line for line in file.read_bytes().splitlines(keepends=True) if b'"stopped"' not in line[:20])
        )
    assert "learning-rate-too-low" not in told(examined(run.folder))


def test_nothing_is_said_of_a_journal_without_a_ride(tmp_path):
    assert examined(tmp_path) == ()
