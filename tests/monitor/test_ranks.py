"""Processes that train together: each writes its own journal, and the one that the others wait for is named."""

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections import namedtuple

import pytest

from netdyno.monitor import ranks
from netdyno.monitor.ranks import BEATS, Told, straggler
from netdyno.monitor.run import Watch
from netdyno.monitor.subject import Subject
from netdyno.records.journal import Alert
from netdyno.store.journal import Journal, new_info, runs

TRAIN = """
import sys, time
import torch, torch.distributed as dist
import netdyno
from netdyno.monitor import pulse, ranks

pulse.PULSE_S = 0.15
ranks.LOOK_FOR_MATES_S = 0.1
store, slow, watched = sys.argv[1:]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 2)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(rank)
seen = netdyno.watch(model, optimizer, run="both", store=store, quiet=True).start() if watched == "yes" else None
for update in range(int(90)):
    time.sleep(0.06 if rank == int(slow) else 0.02)
    x = torch.randn(16, 8)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
    optimizer.step()
if seen is not None:
    seen.stop()
    assert seen.observer.troubles == [], seen.observer.troubles
print("weights", [float(weight.detach().double().sum()).hex() for weight in model.parameters()])
dist.destroy_process_group()
"""


def together(folder, *, slow=-1, watched="yes"):
    """Two processes on the loopback; what each of them printed."""
    script = folder / "train.py"
    script.write_text(textwrap.dedent(TRAIN))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder / "store"), str(slow), watched],
            env={**here, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        told = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], told
    return [out for out, _ in told]


def alerts(run):
    return [event["alert"] for event in run.events()[0] if event["kind"] == "alert"]


@pytest.mark.slow
def test_the_rank_that_the_others_wait_for_is_named(tmp_path):
    together(tmp_path, slow=1)
    found = {run.info.rank: run for run in runs(tmp_path / "store")}
    (told,) = [each for each in alerts(found[0]) if each["cause"] == "straggler-rank"]
    assert told["because"]["rank"] == 1
    assert told["because"]["share"] > ranks.WORTH_A_WORD
    assert not [each for each in alerts(found[1]) if each["cause"] == "straggler-rank"]


@pytest.mark.slow
def test_two_equal_ranks_are_told_of_by_nobody_and_train_as_they_would(tmp_path):
    plain = together(tmp_path, watched="no")
    assert together(tmp_path) == plain
    found = {run.info.rank: run for run in runs(tmp_path / "store")}
    assert {rank: run.info.world for rank, run in found.items()} == {0: 2, 1: 2}
    assert len({run.info.tags["group"] for run in found.values()}) == 1
    assert all(run.end["updates"] == 90 for run in found.values())
    assert not [each for run in found.values() for each in alerts(run) if each["cause"] == "straggler-rank"]


def rank(own, waiting, **phases):
    return Told((own,) * BEATS, (waiting,) * BEATS, phases)


def test_who_works_longer_while_the_others_wait_is_the_straggler():
    found = straggler(
        {0: rank(0.02, 0.04, data=0.01), 1: rank(0.06, 0.001, data=0.05), 2: rank(0.021, 0.04, data=0.01)}
    )
    assert (found.rank, found.phase) == (1, "data")
    assert 0.6 < found.share < 0.7


def test_ranks_that_differ_a_little_or_wait_for_something_else_are_well():
    assert straggler({0: rank(0.05, 0.01), 1: rank(0.055, 0.005)}) is None
    assert straggler({0: rank(0.02, 0.01), 1: rank(0.06, 0.01)}) is None  # nobody waits for it: they are not in step


def test_a_pause_or_two_make_no_straggler():
    slow = Told((0.02,) * (BEATS - 2) + (0.5, 0.5), (0.02,) * BEATS)
    assert straggler({0: rank(0.02, 0.02), 1: slow}) is None
    changing = Told((0.02, 0.09) * (BEATS // 2), (0.0,) * BEATS)
    assert straggler({0: rank(0.02, 0.04), 1: changing}) is None


def test_nobody_is_judged_before_there_is_enough():
    assert straggler({0: rank(0.02, 0.04), 1: Told((0.06,) * 3, (0.0,) * 3)}) is None
    assert straggler({0: rank(0.02, 0.04)}) is None


def test_a_process_alone_belongs_to_no_group(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    assert ranks.place() == (0, 1, None)


def test_a_launcher_says_who_belongs_together_before_they_have_met(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(ranks, "_begun", {})
    first = ranks.place("both")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(ranks, "_begun", {})
    assert ranks.place("both") == (1, 2, first.group)
    assert ranks.place("both").group != first.group  # another training of the same processes


def test_time_blocked_where_ranks_meet_is_waiting_and_elsewhere_its_own():
    phases = iter([{"data": [1, 0, 0], "backward": [1, 0, 0]}, {"data": [3, 1, 8], "backward": [5, 1, 30]}])
    points = {}
    account = namedtuple("Account", "phases")(
        lambda: {name: [10**9 * part for part in parts] for name, parts in next(phases).items()}
    )
    observer = namedtuple("Observer", "counted account")
    watch = namedtuple("Watch", "observer point")
    own = ranks.Own(watch(observer(1, account), points.__setitem__))
    own.tick()
    assert points == {}
    own.watch = watch(observer(3, account), points.__setitem__)
    own.tick()
    assert points == {
        "rank/own_s": 8.0, "rank/waiting_s": 15.0, "rank/own_s/data": 5.5, "rank/own_s/backward": 2.5,
    }  # fmt: skip
    assert json.dumps(points)


def of_two(store, rank, told):
    """The watch of one of two ranks of a group, without an observer."""
    info = new_info("both", tags={"group": "g"}, rank=rank, world=2)
    seen = Watch(Subject({}), info, store, sinks=[told.append], quiet=True)
    seen.journal = Journal.create(store, info)
    seen.running = True
    return seen


def warning(cause):
    return Alert(cause=cause, severity="warning", says="it is so", update=3, seconds=1.0)


def test_rank_0_tells_what_others_found_and_each_cause_once(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks.Own, "tick", lambda _: None)
    loud, silent = [], []
    first, second = of_two(tmp_path, 0, loud), of_two(tmp_path, 1, silent)
    second.alert(warning("only-here"))
    second.alert(warning("everywhere"))
    first.alert(warning("everywhere"))
    ranks.Ranks(first).tick()
    ranks.Ranks(first).tick()
    for seen in (second, first):
        seen.alerts.close()
    assert [(alert.cause, alert.says) for alert in loud] == [
        ("everywhere", "it is so"),
        ("only-here", "rank 1: it is so"),
    ]
    assert silent == []
    for seen in (second, first):
        seen.journal.close("ended", 0)


def test_a_rank_whose_rank_0_is_not_there_tells_for_itself(tmp_path):
    told = []
    alone = of_two(tmp_path, 1, told)
    alone.alert(warning("here"))
    alone.alerts.close()
    alone.journal.close("ended", 0)
    assert [alert.cause for alert in told] == ["here"]


def test_what_rank_0_told_before_it_ended_is_told(tmp_path):
    silent = []
    first, second = of_two(tmp_path, 0, []), of_two(tmp_path, 1, silent)
    first.alert(warning("everywhere"))
    first.alerts.close()
    first.journal.close("ended", 0)
    second.alert(warning("everywhere"))
    second.alert(warning("only-here"))
    second.alerts.close()
    second.journal.close("ended", 0)
    assert [alert.cause for alert in silent] == ["only-here"]
