"""The guard of temperature and power, on simulated sensors and a simulated clock."""

import sys

import pytest

from netdyno.serving.thermal import Guard, Limits, Reading, command, sensors

LIMITS = Limits(hot_c=85, cool_c=75, watts=25, dwell_s=30)


class Board:
    """A sensor that says what it is told to, and a switch that remembers."""

    def __init__(self, **settings):
        self.reading = Reading(50.0, 10.0)
        self.switched, self.told = [], []
        self.guard = Guard(
            self.read, LIMITS, **{"switch": self.switch, "armed": True, "tell": self.told.append, **settings}
        )
        self.now = 0.0

    def read(self):
        if isinstance(self.reading, Exception):
            raise self.reading
        return self.reading

    def switch(self, to):
        self.switched.append((self.now, to))

    def at(self, now, celsius=None, watts=None, error=None):
        self.now = now
        self.reading = error or Reading(celsius, watts)
        return self.guard.look(now)


def test_it_saves_when_hot_and_comes_back_only_when_cool():
    board = Board()
    for now, celsius in [(0, 70), (10, 84.9), (20, 85), (60, 80), (70, 76), (80, 75), (90, 74)]:
        board.at(now, celsius)
    assert board.switched == [(20, "saving"), (80, "full")]


def test_a_temperature_around_the_limit_does_not_swing():
    board = Board()
    for now in range(0, 600, 5):
        board.at(now, 85.5 if now % 10 else 84.0)
    assert board.switched == [(5, "saving")]


def test_a_profile_stands_at_least_the_dwell():
    board = Board()
    board.at(0, 90)
    board.at(10, 60)
    board.at(29.9, 60)
    assert board.switched == [(0, "saving")]
    board.at(30, 60)
    assert board.switched == [(0, "saving"), (30, "full")]
    board.at(31, 95)
    assert len(board.switched) == 2
    board.at(60, 95)
    assert board.switched[-1] == (60, "saving")


def test_power_alone_is_enough_to_save_and_both_must_be_fine_to_come_back():
    board = Board()
    board.at(0, 60, 25.5)
    board.at(40, 60, 24)
    board.at(50, 80, 15)
    assert board.switched == [(0, "saving")]
    board.at(60, 70, 20)
    assert board.switched[-1] == (60, "full")


@pytest.mark.parametrize("error", [OSError("no such device"), ValueError("garbage")])
def test_a_reading_that_fails_switches_nothing(error):
    board = Board()
    board.at(0, 90)
    for now in range(40, 100, 10):
        assert board.at(now, error=error) is None
    assert board.switched == [(0, "saving")]
    assert sum(str(error) in line for line in board.told) == 1
    board.at(100, 60)
    assert board.switched[-1] == (100, "full")


def test_without_a_sensor_it_says_so_once_and_does_nothing():
    board = Board()
    for now in range(10):
        board.at(now)
    assert board.switched == []
    assert board.told == ["temperature and power: not measurable here; the profile stays `full`"]


def test_it_is_a_rehearsal_unless_it_is_armed():
    board = Board(armed=False)
    found = board.at(0, 90)
    assert (found.to, found.done) == ("saving", False)
    assert board.switched == []
    assert board.told == ["rehearsal: would switch to `saving`: 90 °C"]
    assert not Guard(board.read, LIMITS, armed=True).armed


def test_what_a_switch_cost_is_told_after_the_dwell():
    latencies = iter([0.010, 0.018])
    board = Board(latency=lambda: next(latencies))
    board.at(0, 90)
    board.at(10, 90)
    assert board.told == ["switched to `saving`: 90 °C; P99 before it 10.0 ms"]
    board.at(30, 84)
    assert board.told[-1] == "P99 with `saving` is 18.0 ms, before it 10.0 ms (1.80 times)"


def test_a_switch_that_fails_is_told_and_not_tried_at_every_look():
    tries = []

    def failing(to):
        tries.append(to)
        return "permission denied"

    board = Board(switch=failing)
    for now in (0, 5, 10, 29, 30):
        board.at(now, 90)
    assert tries == ["saving", "saving"]
    assert board.guard.profile == "full"
    assert board.told[0] == "could not switch to `saving` (90 °C): permission denied"


@pytest.mark.parametrize("limits", [{"hot_c": 70, "cool_c": 70}, {"watts": 20, "cool_watts": 21}])
def test_limits_that_swing_are_refused(limits):
    with pytest.raises(ValueError, match="swings"):
        Limits(**limits)


def test_a_command_switches_and_its_failure_has_a_reason():
    switch = command(
        {"full": [sys.executable, "-c", ""], "saving": [sys.executable, "-c", "import sys; sys.exit('needs root')"]}
    )
    assert switch("full") is None
    assert switch("saving") == "needs root"
    assert "No such file" in command({"full": ["/nowhere/nvpmodel"]})("full")


def places(tmp_path):
    found = {name: tmp_path / name for name in ("zones", "modules", "supplies")}
    for folder in found.values():
        folder.mkdir()
    return found


def put(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_hottest_zone_counts_and_nonsense_does_not(tmp_path):
    there = places(tmp_path)
    put(there["zones"], "thermal_zone0/temp", "61000\n")
    put(there["zones"], "thermal_zone1/temp", "-274000\n")
    put(there["zones"], "thermal_zone2/temp", "garbage\n")
    put(there["modules"], "hwmon3/temp1_input", "72500\n")
    assert sensors(**there, clock=lambda: 0.0)() == Reading(72.5, None)


def test_energy_counters_become_power_from_the_second_reading_on(tmp_path):
    there = places(tmp_path)
    times = iter([0.0, 2.0, 4.0])
    read = sensors(**there, clock=lambda: next(times))
    put(there["supplies"], "intel-rapl:0/energy_uj", "1000000")
    assert read().watts is None
    put(there["supplies"], "intel-rapl:0/energy_uj", "41000000")
    assert read().watts == pytest.approx(20.0)
    put(there["supplies"], "intel-rapl:0/energy_uj", "5")  # it started over
    assert read().watts is None


def test_a_boards_meter_is_preferred(tmp_path):
    there = places(tmp_path)
    put(there["modules"], "hwmon0/power1_input", "7500000")
    put(there["supplies"], "intel-rapl:0/energy_uj", "1")
    assert sensors(**there, clock=lambda: 0.0)().watts == 7.5


def test_a_machine_without_sensors_is_not_measurable(tmp_path):
    assert sensors(**places(tmp_path), clock=lambda: 0.0)() == Reading(None, None)
