"""Watches temperature and power, and asks for a slower profile before the hardware takes one by itself (ledger A-275).

Switching is for others to do: here it is decided, and told. It changes nothing unless it is given a command and told that it may: a lower
profile raises latency, and mode numbers mean something else on every board.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

Profile = Literal["full", "saving"]
# Degrees and seconds. Above 85 °C boards of this kind throttle by themselves; 10 degrees below it they have cooled down for good; within
# half a minute of a switch nothing can be said about what it did.
HOT_C, COOL_C, DWELL_S = 85.0, 75.0, 30.0
STALE = 3  # readings in a row that failed before that is told
ZONES, SUPPLIES, MODULES = Path("/sys/class/thermal"), Path("/sys/class/powercap"), Path("/sys/class/hwmon")
NOT_HERE = "not measurable here"


class Reading(NamedTuple):
    """What the sensors said; None where there is none, or where it could not be read."""

    celsius: float | None = None
    watts: float | None = None


Sensors = Callable[[], Reading]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """When a profile is left and when it is taken again: the two lie apart, so that it does not swing."""

    hot_c: float = HOT_C
    cool_c: float = COOL_C
    watts: float | None = None
    cool_watts: float | None = None
    dwell_s: float = DWELL_S

    def __post_init__(self) -> None:
        if self.cool_c >= self.hot_c:
            raise ValueError(f"it is hot from {self.hot_c} °C on and cool from {self.cool_c} °C: that swings")
        if self.watts is not None and self.cool_watts is not None and self.cool_watts >= self.watts:
            raise ValueError(
                f"it takes too much from {self.watts} W on and little from {self.cool_watts} W: that swings"
            )

    @property
    def little(self) -> float | None:
        """Watts below which the full profile is taken again: four fifths of the limit where nothing is said."""
        if self.cool_watts is not None or self.watts is None:
            return self.cool_watts
        return 0.8 * self.watts


class Switch(NamedTuple):
    """A change of profile: when, to which, why, whether it was done or only said, and what latency was before."""

    at: float
    to: Profile
    why: str
    done: bool
    before_s: float | None = None


class Guard:
    """Decides at each look. `switch` does it; without one, or without `armed`, it is a rehearsal that only tells.

    `latency` gives the P99 of late requests, so that what a switch cost can be told after it.
    """

    def __init__(
        self,
        sensors: Sensors,
        limits: Limits,
        *,
        switch: Callable[[Profile], str | None] | None = None,
        armed: bool = False,
        latency: Callable[[], float | None] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.sensors = sensors
        self.limits = limits
        self.switch = switch
        self.armed = armed and switch is not None
        self.latency = latency
        self.tell = tell
        self.profile: Profile = "full"
        self.switches: list[Switch] = []
        self.blind = 0  # readings in a row that said nothing
        self._since: float | None = None
        self._owed: Switch | None = None

    def look(self, now: float) -> Switch | None:
        """Read, and switch where it is due. A reading that fails changes nothing."""
        if self._since is None:
            self._since = now
        reading = self._read()
        self._tell_what_it_cost(now)
        if reading is None:
            return None
        to, why = self._wanted(reading)
        if to == self.profile:
            return None
        # Too hot is not waited for once the profile has stood a while; neither direction may follow the other at once.
        if self.switches and now - self._since < self.limits.dwell_s:
            return None
        return self._switched(now, to, why)

    def _read(self) -> Reading | None:
        try:
            reading = self.sensors()
        except (OSError, ValueError) as error:
            self._saw_nothing(str(error))
            return None
        if reading.celsius is None and reading.watts is None:
            self._saw_nothing(NOT_HERE)
            return None
        self.blind = 0
        return reading

    def _saw_nothing(self, says: str) -> None:
        self.blind += 1
        if self.blind == STALE:
            self.tell(f"temperature and power: {says}; the profile stays `{self.profile}`")

    def _wanted(self, reading: Reading) -> tuple[Profile, str]:
        limits, hot, cool = self.limits, [], []
        if reading.celsius is not None:
            hot += [f"{reading.celsius:.0f} °C"] * (reading.celsius >= limits.hot_c)
            cool.append(reading.celsius <= limits.cool_c)
        if reading.watts is not None and limits.watts is not None:
            hot += [f"{reading.watts:.1f} W"] * (reading.watts > limits.watts)
            cool.append(limits.little is not None and reading.watts <= limits.little)
        if hot:
            return "saving", " and ".join(hot)
        if self.profile == "saving" and cool and all(cool):
            return "full", "it has cooled down"
        return self.profile, ""

    def _switched(self, now: float, to: Profile, why: str) -> Switch | None:
        done = False
        if self.armed:
            assert self.switch is not None
            failed = self.switch(to)
            if failed is not None:
                self.tell(f"could not switch to `{to}` ({why}): {failed}")
                self._since = now  # tried again after the dwell, not at every look
                self.switches.append(Switch(now, self.profile, f"failed: {failed}", done=False))
                return None
            done = True
        found = Switch(now, to, why, done, self.latency())
        self.switches.append(found)
        self.profile, self._since, self._owed = to, now, found
        how = "switched" if done else "rehearsal: would switch"
        latency = f"; P99 before it {found.before_s * 1e3:.1f} ms" if found.before_s is not None else ""
        self.tell(f"{how} to `{to}`: {why}{latency}")
        return found

    def _tell_what_it_cost(self, now: float) -> None:
        """Once the dwell is over, latency after a switch beside that before it."""
        owed = self._owed
        if owed is None or now - owed.at < self.limits.dwell_s:
            return
        self._owed = None
        after = self.latency()
        if owed.before_s is not None and after is not None:
            self.tell(
                f"P99 with `{owed.to}` is {after * 1e3:.1f} ms, before it {owed.before_s * 1e3:.1f} ms"
                f" ({after / owed.before_s:.2f} times){'' if owed.done else ', and nothing was switched'}"
            )


def command(words: dict[Profile, Sequence[str]]) -> Callable[[Profile], str | None]:
    """Switches by a command for each profile, `nvpmodel -m 1` for instance; gives the reason when that fails."""

    def switch(to: Profile) -> str | None:
        try:
            done = subprocess.run(words[to], capture_output=True, text=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return None if done.returncode == 0 else (done.stderr.strip() or f"status {done.returncode}")[:200]

    return switch


def sensors(
    *, zones: Path = ZONES, modules: Path = MODULES, supplies: Path = SUPPLIES, clock: Callable[[], float]
) -> Sensors:
    """Reads the kernel's own files: the hottest zone, and the power of all sources. Energy counters need two readings.

    Files are looked for at each reading; one that is broken is left out as long as another says something.
    """
    last: dict[Path, tuple[float, int]] = {}

    def read() -> Reading:
        celsius = [value / 1000 for value in _numbers(zones, "thermal_zone*/temp")]
        celsius += [value / 1000 for value in _numbers(modules, "hwmon*/temp*_input")]
        # A board's meters, in microwatts; else the processor's energy counters, in microjoules.
        watts = [value / 1e6 for value in _numbers(modules, "hwmon*/power*_input")]
        watts = watts or list(_from_energy(supplies, last, clock()))
        sane = [value for value in celsius if -40 < value < 200]  # a sensor that is off says 0x8000 or so
        return Reading(max(sane, default=None), sum(watts) if watts else None)

    return read


def _numbers(folder: Path, pattern: str) -> Iterator[int]:
    for path in sorted(folder.glob(pattern)):
        try:
            yield int(path.read_text())
        except (OSError, ValueError):
            continue


def _from_energy(folder: Path, last: dict[Path, tuple[float, int]], now: float) -> Iterator[float]:
    for path in sorted(folder.glob("intel-rapl:[0-9]/energy_uj")):
        try:
            energy = int(path.read_text())
        except (OSError, ValueError):
            last.pop(path, None)
            continue
        before = last.get(path)
        last[path] = (now, energy)
        # The counter starts over now and then: that reading says nothing.
        if before is not None and now > before[0] and energy >= before[1]:
            yield (energy - before[1]) / 1e6 / (now - before[0])
