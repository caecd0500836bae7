"""The order of a race, who leaves it, and what a pair of sides is worth."""

import random

import pytest

from netdyno.errors import ArmError
from netdyno.measure.latency import Burst
from netdyno.records.trial import Change
from netdyno.shipping import race


class Paced:
    """A side whose calls take what they are told to take; it writes down its turns."""

    def __init__(self, name, seconds, log, noise=0.0, fails_at=None):
        self.name, self.seconds, self.log, self.noise, self.fails_at = name, seconds, log, noise, fails_at
        self.chance = random.Random(name)
        self.bursts = 0
        self.closed = False

    def burst(self, rows, seconds, *, least=3, most=100_000):
        self.bursts += 1
        if self.fails_at == self.bursts:
            raise ArmError("its process ended with status -9")
        self.log.append(self.name)
        own = self.seconds * (1 + self.noise * (self.chance.random() - 0.5))
        return Burst((own,) * 3, own, own, 0.1)

    def close(self):
        self.closed = True


def sides(log, **seconds):
    return {name: Paced(name, value, log, noise=0.02) for name, value in seconds.items()}


def test_both_sides_of_a_pair_take_one_turn_each_in_a_drawn_order():
    log = []
    there = sides(log, a=2.0, b=1.0)
    found = race.paired(there["a"], there["b"], rows=1, pairs=20, chance=random.Random(0))
    turns = ["".join(log[at : at + 2]).upper() for at in range(0, 40, 2)]
    assert turns == list(found.order)
    assert set(turns) == {"AB", "BA"}


def test_a_side_that_takes_half_the_time_is_twice_as_fast():
    there = sides([], a=2.0, b=1.0)
    found = race.speedup(race.paired(there["a"], there["b"], rows=1, pairs=12, chance=random.Random(0)), 0.95)
    assert found.low < 2.0 < found.high
    assert 1.95 < found.middle < 2.05


def test_one_more_spawn_is_worth_more_than_more_pairs_of_one():
    there = sides([], a=2.0, b=1.0)
    parts = [
        race.paired(there["a"], there["b"], rows=1, pairs=3, chance=random.Random(spawn), spawn=spawn)
        for spawn in range(3)
    ]
    whole = race.joined(parts)
    assert whole.spawns == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert race.speedup(whole, 0.95).low > 1.5


def test_a_race_begins_every_round_in_an_order_of_its_own():
    log = []
    there = sides(log, a=1.0, b=1.01, c=1.02)
    run(there, rounds=6, keep=0)
    rounds = [tuple(log[at : at + 3]) for at in range(0, 18, 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 1


def run(there, *, rounds, keep, error=0.05):
    runners = [race.Runner(name, lambda side=side: side) for name, side in there.items()]
    return race.race(runners, rows=1, rounds=rounds, keep=keep, chance=random.Random(3), error=error)


def test_who_is_surely_behind_leaves_and_who_is_close_stays():
    there = sides([], fast=1.0, close=1.03, slow=2.0)
    found = run(there, rounds=12, keep=0)
    assert [one.name for one in found] == ["fast", "close", "slow"]
    out = {one.name: one.out for one in found}
    assert out["fast"] is None
    assert out["close"] is None
    assert out["slow"] is not None
    assert there["slow"].closed
    assert there["slow"].bursts < there["fast"].bursts


def test_a_runner_that_dies_leaves_with_its_reason_and_the_race_goes_on():
    log = []
    there = sides(log, a=1.0, b=1.02)
    there["dies"] = Paced("dies", 0.5, log, fails_at=3)
    found = run(there, rounds=8, keep=0)
    assert found[-1].name == "dies"
    assert found[-1].failed == "its process ended with status -9"
    assert len(found[0].own) == 8


def test_a_runner_that_cannot_be_started_is_said_to_have_failed():
    def broken():
        raise ArmError("no such file")

    found = race.race(
        [race.Runner("broken", broken), race.Runner("good", lambda: Paced("good", 1.0, []))],
        rows=1, rounds=4, keep=0, chance=random.Random(0), error=0.05,
    )  # fmt: skip
    assert {one.name: one.failed for one in found}["broken"] == "no such file"


def test_pairs_become_a_trial_like_any_other():
    there = sides([], a=2.0, b=1.0)
    pairs = race.paired(there["a"], there["b"], rows=1, pairs=4, chance=random.Random(0))
    made = race.trial(Change(id="openvino"), pairs, lower_precision=True)
    assert made.form == "processes"
    assert made.numerics == "lower-precision"
    assert made.control.samples == pairs.control


def test_pairs_of_unequal_length_are_refused():
    uneven = race.Paired((1.0, 2.0), (1.0,), ("AB",), (0,), (), 0.0, 0.0)
    with pytest.raises(ValueError, match="cannot be paired"):
        race.speedup(uneven, 0.95)


class Crowded(Paced):
    """A side that strangers disturb in two bursts of three."""

    def burst(self, rows, seconds, **settings):
        found = super().burst(rows, seconds, **settings)
        return found._replace(
            foreign=0.02 if self.bursts % 3 == 0 else 0.9, own=found.own * (1 if self.bursts % 3 == 0 else 50)
        )


def test_pairs_that_strangers_disturbed_are_taken_again():
    found = race.paired(
        Crowded("a", 2.0, []), Crowded("b", 1.0, []), rows=1, pairs=4, chance=random.Random(0), clean=race.CLEAN
    )
    assert len(found.order) == 4
    assert max(found.control) < 3.0


def test_a_machine_that_never_is_calm_is_an_answer():
    side = Crowded("a", 2.0, [])
    side.burst = lambda rows, seconds, **settings: Burst((2.0,), 2.0, 2.0, 0.9)
    with pytest.raises(race.Busy, match="other programs had more than 15%"):
        race.paired(side, Crowded("b", 1.0, []), rows=1, pairs=8, chance=random.Random(0), clean=race.CLEAN)
