"""How busy processors and devices are, and how much that jumps.

Shows:     cores that the process keeps busy, alone and with its loader workers; the machine as a whole; devices where NVIDIA's
           library can be asked; and the jitter of each over the last minute. A device between 30 and 85 per cent waits.
Costs:     a few reads each second on a thread of its own.
Not seen:  ups and downs within a second. Devices without `nvidia-ml-py`, or of another make.
"""

import contextlib
import os
from collections import deque
from typing import Any, ClassVar

import psutil

from netdyno.measure import host
from netdyno.monitor.gauges._base import Gauge, Told
from netdyno.monitor.gauges._devices import Devices

# A minute of values, and the fewest that a jitter is told of.
WINDOW, LEAST = 60, 10


class Utilisation(Gauge):
    """Differences of what the system counts, once a second."""

    series: ClassVar[dict[str, Told]] = {
        "utilisation/process": Told("", "share of the cores it may use that the process keeps busy"),
        "utilisation/children": Told("", "share that its child processes keep busy"),
        "utilisation/machine": Told("", "share of all cores of the machine that are busy, whoever keeps them so"),
        "utilisation/device/*": Told("", "share of the time in which a kernel ran on the device"),
        "utilisation/device_memory/*": Told("", "share of the time in which the device's memory was read or written"),
        "utilisation_jitter/*": Told("", "from the tenth to the ninetieth percentile over a minute"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.process = psutil.Process()
        self.cores = host.cores()
        self.last: dict[str, float] = {}
        self.recent: dict[str, deque[float]] = {}
        self.devices = Devices()

    def tick(self, seconds: float) -> None:
        """What has been used since the last time."""
        super().tick(seconds)
        if seconds <= 0:
            return
        own = self.process.cpu_times()
        self._since("process", own.user + own.system, seconds * self.cores)
        children = sum(_used(child) for child in _children(self.process)) + own.children_user + own.children_system
        if children or "children" in self.last:
            self._since("children", children, seconds * self.cores)
        machine = psutil.cpu_times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        # A guest's time is counted in its host's already.
        whole = sum(machine) - getattr(machine, "guest", 0.0) - getattr(machine, "guest_nice", 0.0)
        before = self.last.get("whole"), self.last.get("idle")
        self.last["whole"], self.last["idle"] = whole, idle
        if before[0] is not None and before[1] is not None and whole > before[0]:
            self._told("machine", 1 - (idle - before[1]) / (whole - before[0]))
        for number, (compute, memory) in self.devices.utilisation().items():
            self._told(f"device/{number}", compute)
            self.tell(f"utilisation/device_memory/{number}", memory)

    def _since(self, name: str, used: float, available: float) -> None:
        before = self.last.get(name)
        self.last[name] = used
        if before is not None:
            self._told(name, (used - before) / available)

    def _told(self, name: str, share: float) -> None:
        share = min(1.0, max(0.0, share))  # clocks of the system tick in hundredths
        self.tell(f"utilisation/{name}", share)
        kept = self.recent.setdefault(name, deque(maxlen=WINDOW))
        kept.append(share)
        if len(kept) >= LEAST:
            self.tell(f"utilisation_jitter/{name}", jitter(list(kept)))


def jitter(shares: list[float]) -> float:
    """From the tenth to the ninetieth percentile.

    >>> round(jitter([0.3, 0.85] * 10), 2), jitter([0.9] * 20)
    (0.55, 0.0)
    """
    ordered = sorted(shares)
    tenth = len(ordered) // 10
    return ordered[-1 - tenth] - ordered[tenth]


def _children(process: psutil.Process) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{process.pid}/task/{thread}/children") as file:
                found += [int(one) for one in file.read().split()]
    return found


def _used(child: int) -> float:
    with contextlib.suppress(psutil.Error):
        times = psutil.Process(child).cpu_times()
        return float(times.user + times.system)
    return 0.0


GAUGE = Utilisation
