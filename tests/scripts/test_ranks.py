"""What is told of processes that train together."""

from netdyno.scripts.ranks import ranks_of
from netdyno.scripts.stream import Hello, LineSeen, Process, Stream, Tick


def _process(pid, updates, **phases):
    lines = (
        LineSeen(file="train.py", line=9, phase="forward", samples=3),
        LineSeen(file="train.py", line=12, phase="backward", samples=9),
    )
    tick = Tick(updates=updates, phases=phases, lines=lines)
    return Process(pid=pid, hello=Hello(pid=pid, ppid=1, at=float(pid)), tick=tick)


def test_what_a_rank_waits_for_is_told_apart_from_what_it_does():
    fast = _process(1, 100, forward=(0.2, 0.0, 0.0), backward=(0.2, 0.0, 1.0), evaluation=(5.0, 0.0, 0.0))
    slow = _process(2, 100, forward=(0.2, 0.0, 1.0), backward=(0.2, 0.0, 0.0))
    ranks = ranks_of(Stream((fast, slow)))
    assert ranks is not None
    assert [round(one.busy_s, 4) for one in ranks.ranks] == [0.004, 0.014]
    assert [round(one.waits_s, 4) for one in ranks.ranks] == [0.01, 0.0]
    assert ranks.ranks[0].where is not None
    assert ranks.ranks[0].where.line == 9


def test_processes_that_made_other_updates_train_something_else():
    one, other = _process(1, 100, forward=(1.0, 0.0, 0.0)), _process(2, 40, forward=(1.0, 0.0, 0.0))
    assert ranks_of(Stream((one, other))) is None
    assert ranks_of(Stream((one,))) is None
