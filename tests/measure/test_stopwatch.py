"""The stopwatch, under a clock that a test winds by hand."""

import os
import threading
import time

import pytest

from netdyno.measure import stopwatch
from netdyno.measure.stopwatch import (
    Neighbourhood,
    Reading,
    SilentStopwatch,
    Stopwatch,
    between,
    children,
    thread_clock,
)

MS = 1_000_000


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self):
        self.now = Reading(5 * MS, 3 * MS, 1 * MS)
        self.readings = 0

    def run(self, ms):
        self.now = Reading(self.now.wall + ms * MS, self.now.running + ms * MS, self.now.waiting)

    def wait(self, ms):
        self.now = Reading(self.now.wall + ms * MS, self.now.running, self.now.waiting + ms * MS)

    def block(self, ms):
        self.now = Reading(self.now.wall + ms * MS, self.now.running, self.now.waiting)

    def __call__(self):
        self.readings += 1
        return self.now


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def watch(clock):
    return Stopwatch(clock)


def test_each_phase_is_told_apart_into_running_waiting_and_blocked(clock, watch):
    watch.start("data")
    clock.run(1), clock.wait(2), clock.block(3)
    watch.phase("forward")
    clock.run(7)
    watch.stop()
    data, forward = watch.phases()["data"], watch.phases()["forward"]
    assert (data.running, data.waiting, data.blocked) == pytest.approx((0.001, 0.002, 0.003))
    assert (forward.running, forward.waiting, forward.blocked) == pytest.approx((0.007, 0, 0))


def test_phases_add_up_to_the_wall_time(clock, watch):
    watch.start("data")
    for name in ("forward", "loss", "backward", "optimizer", "data") * 3:
        clock.run(1), clock.wait(3), clock.block(2)
        watch.phase(name)
    watch.stop()
    assert watch.total().wall == pytest.approx(15 * 0.006)


def test_switching_costs_one_reading(clock, watch):
    watch.start("data")
    watch.phase("forward")
    watch.stop()
    assert clock.readings == 3


def test_what_went_before_the_start_is_not_counted(clock, watch):
    watch.start("data")
    watch.stop()
    clock.run(100)
    watch.start("data")
    clock.run(1)
    watch.stop()
    assert watch.total().wall == pytest.approx(0.001)


def test_a_nested_phase_is_taken_from_the_one_around_it(clock, watch):
    watch.start("data")
    clock.run(1)
    with watch.nested("collate"):
        clock.run(2)
    clock.run(4)
    watch.stop()
    assert watch.phases()["data"].wall == pytest.approx(0.005)
    assert watch.phases()["collate"].wall == pytest.approx(0.002)


def test_a_nested_phase_ends_when_its_inside_raises(clock, watch):
    watch.start("data")
    with pytest.raises(ValueError), watch.nested("collate"):
        raise ValueError
    clock.run(1)
    watch.stop()
    assert watch.phases()["data"].wall == pytest.approx(0.001)


def test_a_nested_phase_of_a_stopped_stopwatch_is_not_counted(clock, watch):
    with watch.nested("collate"):
        clock.run(1)
    assert watch.phases() == {}
    assert clock.readings == 0


def test_waiting_that_is_noticed_late_goes_to_the_phase_whose_time_it_is(clock, watch):
    # The thread is put aside after the wall clock was read and before the run delay was.
    watch.start("data")
    clock.run(1)
    clock.now = Reading(clock.now.wall, clock.now.running, clock.now.waiting + 20 * MS)
    watch.phase("forward")
    clock.now = Reading(clock.now.wall + 20 * MS, clock.now.running, clock.now.waiting)
    clock.run(2)
    watch.stop()
    assert watch.phases()["data"].waiting == 0
    assert watch.phases()["forward"].waiting == pytest.approx(0.020)
    assert watch.phases()["forward"].blocked == pytest.approx(0.0)


def test_a_clock_that_steps_back_makes_no_negative_time(clock, watch):
    watch.start("data")
    clock.now = Reading(clock.now.wall + MS, clock.now.running - MS, clock.now.waiting - MS)
    watch.stop()
    split = watch.total()
    assert min(split.running, split.waiting, split.blocked) >= 0


def test_clearing_forgets_a_phase_that_an_exception_left_on(clock, watch):
    watch.start("backward")
    watch.clear()
    with watch.nested("collate"):
        clock.run(1)
    assert watch.phases() == {}


def test_asking_in_the_middle_changes_nothing(clock, watch):
    watch.start("data")
    clock.run(1)
    watch.phase("forward")
    assert watch.phases()["data"].wall == pytest.approx(0.001)
    clock.run(2)
    watch.stop()
    assert watch.total().wall == pytest.approx(0.003)


def test_a_silent_stopwatch_reads_no_clock(clock):
    watch = SilentStopwatch(clock)
    watch.start("data")
    watch.phase("forward")
    watch.stop()
    assert clock.readings == 0
    assert watch.phases() == {}


def test_between_never_gives_parts_larger_than_the_whole():
    split = between(Reading(0, 0, 0), Reading(10, 8, 9))
    assert split.wall == pytest.approx(10e-9)
    assert min(split.running, split.waiting, split.blocked) >= 0


def test_a_sleeping_thread_is_blocked_and_a_spinning_one_is_running():
    clock = thread_clock()
    before = clock()
    time.sleep(0.02)
    slept = clock()
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    spun = clock()
    assert between(before, slept).blocked >= 0.019
    assert between(before, slept).running < 0.01
    assert between(slept, spun).running >= 0.019


def test_a_clock_closes_its_file_when_it_is_let_go():
    before = len(os.listdir("/proc/self/fd"))
    clocks = [thread_clock() for _ in range(20)]
    del clocks
    assert len(os.listdir("/proc/self/fd")) <= before


def test_what_goes_on_beside_only_grows():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    look = Neighbourhood().read
    first = look()
    beside = look().since(first)
    stop.set()
    thread.join()
    assert thread.native_id in beside.tasks
    assert all(run >= 0 and wait >= 0 for run, wait in beside.tasks.values())
    assert beside.busy >= 0


def test_children_are_found_whichever_thread_started_them():
    started = []

    def start():
        import subprocess

        started.append(subprocess.Popen(["sleep", "5"]))
        done.wait()

    done = threading.Event()
    thread = threading.Thread(target=start)
    thread.start()
    while not started:
        time.sleep(0.01)
    try:
        assert started[0].pid in children(os.getpid())
    finally:
        started[0].kill()
        started[0].wait()
        done.set()
        thread.join()


def test_a_thread_that_takes_the_place_of_one_that_ended_is_seen():
    look = Neighbourhood().read
    done = threading.Event()
    before = threading.Thread(target=done.wait)
    before.start()
    assert before.native_id in look().tasks
    done.set()
    before.join()
    more = threading.Event()
    after = threading.Thread(target=more.wait)
    after.start()
    try:
        tasks = look().tasks
        assert after.native_id in tasks
        assert before.native_id not in tasks
    finally:
        more.set()
        after.join()


def test_children_count_among_the_neighbours_until_they_end():
    import subprocess

    look = Neighbourhood().read
    look()
    child = subprocess.Popen(["sleep", "5"])
    try:
        assert child.pid in look().tasks
    finally:
        child.kill()
        child.wait()
    assert child.pid not in look().tasks


def test_a_look_around_opens_its_files_once():
    look = Neighbourhood().read
    look()
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        look()
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_look_around_after_a_fork_is_of_the_new_process():
    neighbourhood = Neighbourhood()
    neighbourhood.read()
    child = os.fork()
    if child == 0:
        # The forked process has this one thread; its parent's would be another.
        os._exit(len(neighbourhood.read().tasks))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_what_the_machine_does_is_asked_only_when_tasks_can_crowd_the_cores():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    few, enough = Neighbourhood(cores=1000).read(), Neighbourhood(cores=1).read()
    stop.set()
    thread.join()
    assert few.busy is None
    assert enough.busy > 0
    assert enough.since(few).busy is None


STAT = b"""cpu  900 0 100 5000 0 10 0 0 0 0
cpu0 800 0 50 2500 0 5 0 0 0 0
cpu1 100 0 50 2500 0 5 0 0 0 0
intr 12345
"""


@pytest.mark.parametrize(("mine", "ticks"), [({0, 1}, 1010), ({1}, 155)])
def test_only_programs_on_the_cores_that_this_process_may_use_stand_in_its_way(tmp_path, monkeypatch, mine, ticks):
    (tmp_path / "stat").write_bytes(STAT)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: mine)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert stopwatch._busy(stopwatch._Open(str(tmp_path / "stat"))) == ticks / stopwatch.TICKS
