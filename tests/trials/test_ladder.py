"""The rungs are raced first, the two ends apart, in spawns of their own."""

import random

import pytest
import torch

from netdyno import Workload
from netdyno.records.measured import Split, Turn
from netdyno.records.record import Plan
from netdyno.records.trial import Change, Memory
from netdyno.trials.lab import Lab
from netdyno.trials.ladder import MORE_SPAWNS, climb

WORKLOAD = Workload(
    name="tiny", model=lambda: torch.nn.Linear(2, 2), train=lambda: (torch.randn(64, 2), torch.zeros(64).long())
)
A, B = Change(id="channels-last"), Change(id="set-to-none")
SECONDS = {frozenset(): 1.0, frozenset({"channels-last"}): 0.7, frozenset({"set-to-none"}): 0.8}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Scripted:
    setup_s = 0.0

    def __init__(self, recipe, clock, chance, noise):
        self.recipe, self.clock, self.chance = recipe, clock, chance
        luck = chance.lognormvariate(0, noise)  # a process keeps its luck for as long as it lives
        self.second = SECONDS.get(frozenset(change.id for change in recipe), 0.5) * luck

    def turn(self, steps):
        self.clock.now += self.second * steps
        return Turn(steps=steps, time=Split(running=self.second * steps), losses=(0.0,) * steps)

    def checksum(self):
        return "same"

    def memory(self):
        return Memory()

    def close(self):
        pass


def lab(opened, *, noise=0.0):
    clock, chance = Clock(), random.Random(3)

    def opener(_, recipe, **__):
        opened.append(frozenset(change.id for change in recipe))
        return Scripted(recipe, clock, chance, noise)

    return Lab(reference="x", workload=WORKLOAD, plan=Plan(), clock=clock, opener=opener)


def test_every_rung_is_spawned_anew_each_time_and_the_ends_have_spawns_of_their_own():
    opened = []
    found = climb(lab(opened), (A, B), budget_s=1e6)
    assert [len(arm.times) for arm in found.arms] == [5, 5, 5, 5]
    assert len(found.check_baseline) == len(found.check_final) == 5
    assert opened.count(frozenset()) == 10
    assert opened.count(frozenset({"channels-last"})) == 5


def test_what_is_measured_is_what_the_arms_took():
    found = climb(lab([]), (A, B), budget_s=1e6)
    by_recipe = {frozenset(change.id for change in arm.recipe): arm.times[0][0] for arm in found.arms}
    assert by_recipe == pytest.approx({**SECONDS, frozenset({"channels-last", "set-to-none"}): 0.5})


def test_a_wide_claim_gets_more_spawns_while_the_budget_lasts():
    found = climb(lab([], noise=0.2), (A, B), budget_s=1e6)
    assert len(found.check_final) == MORE_SPAWNS * 5


def test_three_spawns_are_taken_however_small_the_budget():
    found = climb(lab([], noise=0.2), (A, B), budget_s=0.0)
    assert [len(arm.times) for arm in found.arms] == [3] * 4
    assert len(found.check_final) == 3


def test_a_replay_races_the_two_ends_only():
    opened = []
    found = climb(lab(opened), (A, B), budget_s=1e6, rungs=False)
    assert found.arms == ()
    assert set(opened) == {frozenset(), frozenset({"channels-last", "set-to-none"})}
