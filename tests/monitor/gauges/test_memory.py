import os

from monitor.gauges.rides import aboard, one
from netdyno.monitor.gauges.memory import Slope


def test_a_process_has_memory_and_its_slope_comes_with_time():
    with aboard(one("memory")) as told:
        gauge = told.observer.vitals.vitals[0]
        for _ in range(40):
            gauge.tick(3.0)
    assert told.points["memory/rss"][-1] > 10 << 20
    assert "memory/rss_slope" in told.points
    if os.path.exists("/proc/self/smaps_rollup"):
        assert 0 < told.points["memory/pss"][0] < 4 * told.points["memory/rss"][0]


def test_a_slope_is_bytes_by_the_second():
    slope = Slope()
    found = [slope.add(at, 1e6 + 500.0 * at) for at in range(0, 120, 3)]
    assert found[5] is None
    assert found[-1] == 500.0


def test_a_single_large_allocation_that_goes_again_is_no_slope():
    slope = Slope()
    found = [slope.add(at, 1e9 if at == 90 else 1e6) for at in range(0, 120, 3)]
    assert found[-1] == 0.0


def test_children_are_counted():
    import subprocess
    import sys

    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with aboard(one("memory")) as told:
            told.observer.vitals.vitals[0].tick(1.0)
    finally:
        child.communicate(b"\n")
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        assert told.points["memory/children_count"][0] >= 1
        assert told.points["memory/children"][0] > 0
