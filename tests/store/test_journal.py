import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from netdyno.store.journal import Journal, Run, Series, decimated, new_info, runs


def journal(folder, **settings):
    return Journal.create(folder, new_info("a run", tags={"stage": "optim"}), **settings)


def test_what_was_written_is_read_again(tmp_path):
    made = journal(tmp_path)
    made.point("loss", 1, 0.5, 0.1)
    made.point("loss", 2, float("nan"), 0.2)
    made.point("gradient_norm/layers.0/weight", 2, 3.0, 0.2)
    made.event("alert", 2, says="the loss is not finite", value=float("nan"))
    made.close("ended", 2)
    (run,) = runs(tmp_path)
    assert run.info == made.info
    assert run.names() == ["gradient_norm/layers.0/weight", "loss"]
    loss = run.series("loss")
    assert loss.updates.tolist() == [1, 2]
    assert loss.values[0] == 0.5
    assert np.isnan(loss.values[1])
    events, _ = run.events()
    assert [event["kind"] for event in events] == ["alert", "end"]
    assert events[0]["value"] is None
    assert run.state() == "ended"


def test_a_reader_goes_on_where_it_stopped(tmp_path):
    made = journal(tmp_path)
    run = Run(made.folder)
    made.event("alert", 1)
    made.point("loss", 1, 1.0)
    made.flush()
    first, at = run.events()
    made.event("alert", 2)
    made.point("loss", 2, 2.0)
    made.flush()
    second, _ = run.events(at)
    assert [event["update"] for event in (*first, *second)] == [1, 2]
    assert run.series("loss", start=1).values.tolist() == [2.0]
    made.close("ended", 2)


def test_a_point_and_a_line_that_a_kill_cut_are_passed_over(tmp_path):
    made = journal(tmp_path)
    made.point("loss", 1, 1.0)
    made.event("alert", 1)
    made.close("ended", 1)
    with (made.folder / "series" / "loss.f64").open("ab") as file:
        file.write(b"\x00" * 11)
    with (made.folder / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "ale')
    run = Run(made.folder)
    assert run.series("loss").values.tolist() == [1.0]
    assert len(run.events()[0]) == 2
    assert run.state() == "ended"


KILLED = """
import sys, time
from pathlib import Path
from netdyno.store.journal import Journal, new_info
made = Journal.create(Path(sys.argv[1]), new_info("killed", tags={}))
for update in range(100_000):
    made.point("loss", update, 1.0)
    print(update, time.monotonic(), flush=True)
    time.sleep(0.01)
"""


def test_a_kill_costs_at_most_the_last_second(tmp_path):
    script = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    lines = []
    while len(lines) < 200:
        lines.append(script.stdout.readline())
    os.kill(script.pid, signal.SIGKILL)
    lines += script.stdout.read().splitlines()
    script.wait()
    told = {int(update): float(at) for update, at in (line.split() for line in lines if len(line.split()) == 2)}
    (run,) = runs(tmp_path)
    kept = run.series("loss")
    lost = [at for update, at in told.items() if update > kept.updates[-1]]
    assert not lost or max(told.values()) - min(lost) <= 1.0
    assert run.end is None
    assert run.state() == "running"
    assert run.state(now=lambda: time.time() + 60) == "silent"


def test_a_fork_writes_nothing_twice(tmp_path):
    made = journal(tmp_path, flush_s=60.0)
    made.point("loss", 1, 1.0)
    child = os.fork()
    if child == 0:
        made.flush()
        made.close("ended", 1)
        os._exit(0)
    os.waitpid(child, 0)
    made.close("ended", 1)
    assert Run(made.folder).series("loss").values.tolist() == [1.0]


def test_a_disk_that_refuses_raises_nothing_and_is_told(tmp_path):
    made = journal(tmp_path, flush_s=60.0)
    (made.folder / "series").rmdir()
    (made.folder / "series").write_text("no folder any more")
    made.point("loss", 1, 1.0)
    made.flush()
    assert made.trouble is not None
    made.close("ended", 1)


@pytest.mark.parametrize("points", [10, 1000, 5000])
def test_decimated_keeps_extremes_ends_and_what_is_not_finite(points):
    values = np.sin(np.arange(100_000) / 700)
    values[51_234], values[7], values[77_777] = 9.0, -9.0, np.nan
    series = Series(np.arange(100_000.0), np.arange(100_000.0) / 10, values)
    few = decimated(series, points=points)
    assert len(few.values) <= 1.2 * points + 6
    assert np.nanmax(few.values) == 9.0
    assert np.nanmin(few.values) == -9.0
    assert np.isnan(few.values).any()
    assert few.updates[0] == 0
    assert few.updates[-1] == 99_999
    assert (np.diff(few.updates) > 0).all()


def test_a_short_series_is_not_thinned():
    series = Series(*(np.arange(5.0) for _ in range(3)))
    assert decimated(series, points=10) is series
