"""The order of work is asserted like output."""

import random

from netdyno.records.measured import Split, Turn
from netdyno.records.trial import Memory
from netdyno.trials.race import MOST_RERUNS, race


class Scripted:
    """An arm that writes down when it ran, and waits for a core as it is told."""

    recipe = ()
    setup_s = 0.0

    def __init__(self, name, diary, waits=()):
        self.name, self.diary, self.waits = name, diary, list(waits)

    def turn(self, steps):
        self.diary.append(self.name)
        waiting = self.waits.pop(0) if self.waits else 0.0
        return Turn(steps=steps, time=Split(running=1.0 - waiting, waiting=waiting))

    def checksum(self):
        return "same"

    def memory(self):
        return Memory()

    def close(self):
        pass


def test_every_arm_runs_once_in_every_round_and_the_order_is_drawn_afresh():
    diary = []
    race([Scripted("A", diary), Scripted("B", diary)], rounds=40, steps=1, chance=random.Random(1))
    pairs = ["".join(diary[i : i + 2]) for i in range(0, len(diary), 2)]
    assert set(pairs) == {"AB", "BA"}
    assert 10 <= pairs.count("AB") <= 30


def test_a_round_on_a_busy_machine_is_run_again_for_all_arms():
    diary = []
    arms = [Scripted("A", diary, waits=[0.9]), Scripted("B", diary)]
    (only,) = race(arms, rounds=1, steps=1, chance=random.Random(1), waiting_limit=0.25)
    assert sorted(diary) == ["A", "A", "B", "B"]
    assert only.rerun == 1
    assert only.turns[0].waiting_share == 0.0


def test_a_machine_that_is_always_busy_does_not_keep_a_race_from_ending():
    diary = []
    arms = [Scripted("A", diary, waits=[0.9] * 99)]
    (only,) = race(arms, rounds=1, steps=1, chance=random.Random(1), waiting_limit=0.25)
    assert only.rerun == MOST_RERUNS


def test_a_race_stops_when_it_is_told_that_the_answer_is_known():
    diary = []
    rounds = race(
        [Scripted("A", diary)], rounds=99, steps=1, chance=random.Random(1), until=lambda done: len(done) == 3
    )
    assert len(rounds) == 3
