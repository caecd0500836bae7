"""A trial from end to end, with arms that are scripted instead of run."""

import contextlib
import random
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from netdyno import Workload
from netdyno.errors import ArmError
from netdyno.interventions import _base
from netdyno.records.measured import Split, Turn
from netdyno.records.record import Plan
from netdyno.records.trial import Change, Memory
from netdyno.trials.attempt import PARITY_STEPS, try_change
from netdyno.trials.lab import Lab

WORKLOAD = Workload(
    name="tiny", model=lambda: torch.nn.Linear(2, 2), train=lambda: (torch.randn(64, 2), torch.zeros(64).long())
)


@dataclass(frozen=True)
class Wish:
    """A change that an arm is scripted for."""

    layers: ClassVar = ("compute",)
    numerics: ClassVar = "same-bits"
    form: ClassVar = "in-process"
    stage: ClassVar = 30
    effort: ClassVar = 1.0
    memory_only: ClassVar = False

    def refuses(self, subject):
        return None

    @contextlib.contextmanager
    def applied(self, subject):
        yield subject


@pytest.fixture(autouse=True)
def wish():
    _base.catalogue()["wish"] = Wish
    yield
    del _base.catalogue()["wish"]


class Scripted:
    def __init__(self, recipe, second, clock, *, losses=(0.5,), fails=None, setup_s=0.0):
        self.setup_s = setup_s
        self.recipe, self.second, self.clock, self.losses, self.fails = recipe, second, clock, losses, fails

    def turn(self, steps):
        if self.fails:
            raise self.fails
        seconds = self.second()
        self.clock.now += seconds * steps
        return Turn(steps=steps, time=Split(running=seconds * steps), losses=self.losses * steps)

    def checksum(self):
        return "same"

    def memory(self):
        return Memory()

    def close(self):
        pass


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def tried(*, control=0.010, treatment=0.008, noise=0.05, plan=None, **how):
    clock = Clock()
    chance = random.Random(7)

    def opener(_, recipe, **__):
        middle = treatment if recipe else control
        return Scripted(
            recipe, lambda: middle * chance.lognormvariate(0, noise / 1.4), clock, **(how if recipe else {})
        )

    lab = Lab(
        reference="",
        workload=WORKLOAD,
        plan=plan or Plan(),
        clock=clock,
        opener=opener,
        noise={"in-process": noise},
        chance=random.Random(1),
    )
    return try_change(lab, Change(id="wish"), against=(), error=0.005)


def test_a_trial_keeps_every_raw_sample_and_the_order_in_which_it_was_taken():
    trial = tried()
    count = len(trial.control.samples)
    assert count == len(trial.treatment.samples) == len(trial.order) == len(trial.spawns)
    assert {"AB", "BA"} == set(trial.order)
    assert trial.control.warmup
    assert trial.failed is None


def test_a_clear_gain_ends_the_trial_long_before_all_planned_pairs():
    trial = tried(treatment=0.005, noise=0.15)
    assert trial.looks[-1] == len(trial.control.samples)
    assert len(trial.control.samples) < trial.planned_pairs / 2


def test_a_change_without_effect_is_given_up_before_the_last_pair():
    trial = tried(treatment=0.010, noise=0.15)
    assert len(trial.control.samples) < trial.planned_pairs


def test_sides_are_rebuilt_within_a_trial():
    trial = tried(treatment=0.0096, noise=0.10)
    assert len(set(trial.spawns)) > 1


def test_a_side_that_crashes_makes_a_failed_trial_with_its_last_words():
    trial = tried(fails=ArmError("it was killed by signal 9", last_words="Killed"))
    assert trial.failed == "it was killed by signal 9"
    assert trial.last_words == "Killed"


def test_a_bug_in_a_side_does_not_end_the_run_either():
    trial = tried(fails=ZeroDivisionError("division by zero"))
    assert trial.failed == "ZeroDivisionError: division by zero"


def test_losses_that_differ_break_a_promise_of_same_bits():
    trial = tried(losses=(0.25,))
    (parity,) = trial.parity
    assert parity.measure == "bits"
    assert not parity.holds


@pytest.mark.parametrize(("goal", "guarded"), [("time", True), ("memory", False)])
def test_what_buys_memory_with_time_need_not_pay_its_set_up_back(goal, guarded):
    slower = Plan(goal=goal, time_price=0.5, least_gain=0.05 if goal == "memory" else -0.5)
    trial = tried(treatment=0.012, setup_s=0.3, plan=slower)
    names = [guard.name for guard in trial.guards]
    assert "taken back" in names
    assert ("break-even" in names) == guarded


def test_a_trial_ends_when_its_seconds_are_spent():
    trial = tried(treatment=0.0096, noise=0.10, plan=Plan(trial_s=1.0, max_pairs=100_000, least_gain=0.04))
    assert trial.cost_s < 3.0
    assert trial.looks[-1] == len(trial.control.samples)


@pytest.mark.parametrize(
    ("numerics", "losses", "looks"),
    [("lower-precision", 0.6, True), ("lower-precision", 0.5, True), ("same-bits", 0.5, False)],
)
def test_what_may_change_the_training_is_looked_at_however_few_steps_a_quick_trial_took(
    numerics, losses, looks, monkeypatch
):
    asked = []
    monkeypatch.setattr(Wish, "numerics", numerics)
    monkeypatch.setattr(Lab, "quality", lambda _, trial: asked.append(trial) or ((), []))
    trial = tried(control=0.100, treatment=0.050, noise=0.01, losses=(losses,))
    assert len(trial.control.samples) * trial.steps_per_turn < PARITY_STEPS
    assert bool(asked) == looks


def test_one_bit_that_differs_is_told_before_twenty_updates_were_compared():
    differs, alike = (tried(control=0.1, treatment=0.05, noise=0.01, losses=(loss,)) for loss in (0.6, 0.5))
    assert [(parity.measure, parity.holds) for parity in differs.parity] == [("bits", False)]
    assert alike.parity == ()


class Apart(Wish):
    """The same change, of the kind that needs a process of its own."""

    form: ClassVar = "processes"


def spawned(monkeypatch, *, noise, plan):
    monkeypatch.setitem(_base.catalogue(), "wish", Apart)
    return tried(control=0.010, treatment=0.0094, noise=noise, plan=plan)


def test_quick_spawns_are_taken_more_often_when_an_answer_needs_them(monkeypatch):
    trial = spawned(monkeypatch, noise=0.1, plan=Plan(trial_s=1000.0))
    assert 5 < len(set(trial.spawns)) <= 12
    assert trial.planned_pairs == 12 * 5


def test_dear_spawns_are_taken_as_often_as_the_plan_says(monkeypatch):
    trial = spawned(monkeypatch, noise=0.1, plan=Plan(trial_s=10.0))
    assert len(set(trial.spawns)) <= 5
