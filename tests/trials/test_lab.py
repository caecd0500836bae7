"""How long a turn is, and where it begins."""

import torch

from netdyno import Workload
from netdyno.arms.in_process import FIRST_STEPS
from netdyno.records.measured import Split, Turn
from netdyno.records.record import Plan
from netdyno.records.trial import Change
from netdyno.trials.lab import LONGEST_EPOCH_S, Lab

# 320 samples in batches of 10: an epoch has 32 steps.
WORKLOAD = Workload(
    name="tiny",
    model=lambda: torch.nn.Linear(2, 2),
    train=lambda: (torch.randn(320, 2), torch.zeros(320).long()),
    val=lambda: (torch.randn(10, 2), torch.zeros(10).long()),
    batch_size=10,
)
LAB = Lab(reference="", workload=WORKLOAD, plan=Plan())
WORKERS = (Change(id="loader-workers", settings={"workers": 4}),)


class Counting:
    setup_s = 0.0

    def __init__(self, recipe, step_s):
        self.recipe, self.step_s, self.steps = recipe, step_s, FIRST_STEPS

    def turn(self, steps):
        self.steps += steps
        return Turn(steps=steps, time=Split(running=self.step_s * steps), losses=(0.0,) * steps)


def test_with_loader_workers_a_turn_is_a_whole_epoch_from_its_first_batch_to_its_last():
    arms = [Counting((), 0.035), Counting(WORKERS, 0.010)]
    steps, _ = LAB.warm(arms, "processes")
    assert steps == 32
    assert [arm.steps % 32 for arm in arms] == [0, 0]


def test_quick_epochs_are_taken_several_at_a_time():
    steps, _ = LAB.warm([Counting(WORKERS, 0.001)], "processes")
    assert steps % 32 == 0
    assert steps > 32


def test_an_epoch_that_is_too_long_is_cut_into_whole_rotations_of_the_workers():
    steps = LAB.steps_of_a_turn(1.1 * LONGEST_EPOCH_S / 32, "processes", workers=4)
    assert steps % 4 == 0
    assert steps < 32


def test_without_workers_a_turn_is_as_short_as_drift_asks_for():
    assert LAB.steps_of_a_turn(0.010, "in-process") == 2


def test_sides_take_equal_numbers_of_steps_while_they_warm_up():
    arms = [Counting((), 0.035), Counting(WORKERS, 0.010)]
    LAB.warm(arms, "processes")
    assert arms[0].steps == arms[1].steps
