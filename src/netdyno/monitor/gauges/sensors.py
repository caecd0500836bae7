"""Temperature and power, where the machine has a sensor for them.

Shows:     a machine that throttles because it is hot, a power limit that is reached, and what a run draws.
Costs:     a few reads each second on a thread of its own.
Not seen:  what a container or a virtual machine hides. Power of processors without RAPL, or that only root may read.
"""

import contextlib
import glob
from pathlib import Path
from typing import Any, ClassVar

import psutil

from netdyno.measure.energy import microjoules, used
from netdyno.monitor.gauges._base import Gauge, Told
from netdyno.monitor.gauges._devices import Devices

# Chips of processors among all sensors: Intel's, AMD's, and those of boards with ARM.
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "acpitz")
ZONES = "/sys/class/powercap/intel-rapl:[0-9]*"


class Sensors(Gauge):
    """Asks once a second; a machine without sensors is asked once."""

    series: ClassVar[dict[str, Told]] = {
        "temperature/cpu": Told("°C", "the hottest sensor of the processor"),
        "temperature/device/*": Told("°C", "a device's core"),
        "power/cpu": Told("W", "the processor's packages, all together"),
        "power/device/*": Told("W", "a device's board"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.devices = Devices()
        self.warm = True
        self.zones = _zones(ZONES)
        self.energy: dict[str, int] = {}

    def tick(self, seconds: float) -> None:
        """Everything there is."""
        super().tick(seconds)
        hottest = _hottest() if self.warm else None
        self.warm = hottest is not None
        if hottest is not None:
            self.tell("temperature/cpu", hottest)
        if seconds > 0:
            self._power(seconds)
        for number, degrees in self.devices.temperature().items():
            self.tell(f"temperature/device/{number}", degrees)
        for number, watts in self.devices.power().items():
            self.tell(f"power/device/{number}", watts)

    def _power(self, seconds: float) -> None:
        spent = 0
        known = True
        for zone in self.zones:
            counter = Path(zone) / "energy_uj"
            now = microjoules(counter)
            before = self.energy.get(zone)
            if now is None:
                return
            self.energy[zone] = now
            known = known and before is not None
            if before is not None:
                spent += used(counter, before, now)
        if known and self.zones:
            self.tell("power/cpu", spent / 1e6 / seconds)


def _hottest() -> float | None:
    ask = getattr(psutil, "sensors_temperatures", None)
    with contextlib.suppress(Exception):
        found = [one.current for name, each in (ask() if ask else {}).items() if name in CHIPS for one in each]
        return max(found, default=None)
    return None


def _zones(pattern: str) -> list[str]:
    """Packages; their parts (cores, memory) are zones below them, with a second number in their names."""
    return sorted(
        path
        for path in glob.glob(pattern)
        if path.count(":") == 1 and microjoules(Path(path) / "energy_uj") is not None
    )


GAUGE = Sensors
