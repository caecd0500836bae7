from types import SimpleNamespace

import pytest

from monitor.gauges.rides import aboard, one
from netdyno.monitor.gauges import _devices
from netdyno.monitor.gauges.utilisation import jitter


def test_a_process_that_works_is_busy():
    with aboard(one("utilisation")) as told:
        gauge = told.observer.vitals.vitals[0]
        gauge.process = SimpleNamespace(
            pid=0, cpu_times=lambda: SimpleNamespace(user=used[0], system=0.0, children_user=0.0, children_system=0.0)
        )
        gauge.cores = 4
        used = [0.0]
        for _ in range(3):
            gauge.tick(1.0)
            used[0] += 2.0
    assert told.points["utilisation/process"][:2] == [0.5, 0.5]
    assert all(0 <= share <= 1 for share in told.points["utilisation/machine"])


def test_an_alternating_load_jitters_and_a_steady_one_does_not():
    assert jitter([0.30, 0.85] * 30) == pytest.approx(0.55)
    assert jitter([0.85] * 60) == 0
    assert jitter([0.9] * 59 + [0.1]) == 0


class Nvml:
    """A library with two cards, of which one does not tell its power."""

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=30 + handle, memory=10)

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 60 + handle

    def nvmlDeviceGetPowerUsage(self, handle):
        if handle:
            raise RuntimeError("not supported")
        return 250_000


def test_devices_tell_what_they_can():
    devices = _devices.Devices()
    devices.nvml, devices.handles, devices.tried = Nvml(), {0: 0, 1: 1}, True
    assert devices.utilisation() == {0: (0.30, 0.1), 1: (0.31, 0.1)}
    assert devices.temperature() == {0: 60, 1: 61}
    assert devices.power() == {0: 250.0}


def test_a_process_without_a_device_asks_nobody():
    devices = _devices.Devices()
    assert devices.utilisation() == {}
    assert devices.nvml is None


def test_devices_are_those_that_the_process_may_see():
    asked = SimpleNamespace(
        nvmlDeviceGetHandleByIndex=lambda at: ("index", at), nvmlDeviceGetHandleByUUID=lambda at: ("id", at)
    )
    assert _devices._handle(asked, 1, None) == ("index", 1)
    assert _devices._handle(asked, 0, "3,1") == ("index", 3)
    assert _devices._handle(asked, 1, "GPU-a, GPU-b") == ("id", "GPU-b")
