"""A step, phase by phase, with delays that a hand-wound clock knows."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from netdyno.errors import TargetError
from netdyno.measure.step import Stepper, beside_others, evaluating, forward_loss, one_batch, train_on
from netdyno.measure.stopwatch import Bystanders, Reading, Stopwatch
from netdyno.records.measured import Split, Turn
from netdyno.targets.workload import Workload


class Ticking:
    """Every reading is a millisecond after the last."""

    def __init__(self):
        self.ms = 0

    def __call__(self):
        self.ms += 1
        return Reading(self.ms * 1_000_000, self.ms * 1_000_000, 0)


def workload(**changes):
    data = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    settings = {"model": lambda: nn.Linear(4, 2), "train": lambda: (data, (data.sum(1) > 0).long()), "batch_size": 8}
    return Workload(**{**settings, "name": "small", **changes})


def stepper(subject):
    return Stepper(subject, Stopwatch(Ticking()))


def test_a_turn_names_its_phases_in_the_order_of_a_step():
    taken = stepper(workload().fresh(0)).take(1)
    assert list(taken.phases) == ["data", "collate", "forward", "loss", "backward", "optimizer"]


def test_a_turn_has_copy_and_log_only_when_the_subject_does():
    seen = []
    subject = workload(log=lambda _, loss: seen.append(loss)).fresh(0).with_place(lambda batch: batch)
    taken = stepper(subject).take(2)
    assert {"copy", "log"} <= set(taken.phases)
    assert seen == pytest.approx(list(taken.losses))


def test_phases_of_a_turn_add_up_to_its_time():
    taken = stepper(workload().fresh(0)).take(3)
    assert sum(split.wall for split in taken.phases.values()) == pytest.approx(taken.time.wall)
    assert taken.steps == len(taken.losses) == 3


def test_stepping_trains_like_a_loop_written_by_hand():
    ours, theirs = workload().fresh(3), workload().fresh(3)
    losses = stepper(ours).take(4).losses
    batches = theirs.feed.epochs()
    for seen in losses:
        batch = next(batches)
        loss = nn.functional.cross_entropy(theirs.model(batch[0]), batch[1])
        loss.backward()
        theirs.optimizer.step()
        theirs.optimizer.zero_grad()
        assert loss.item() == seen
    assert all(torch.equal(a, b) for a, b in zip(ours.model.parameters(), theirs.model.parameters(), strict=True))


def test_switches_are_on_during_a_turn_and_off_afterwards():
    import contextlib

    events = []

    @contextlib.contextmanager
    def switch():
        events.append("on")
        yield
        events.append("off")

    subject = workload(log=lambda _, __: events.append("step")).fresh(0).with_turn(switch)
    stepper(subject).take(2)
    assert events == ["on", "step", "step", "off"]


def test_gradients_are_released_as_the_subject_says():
    kept, freed = workload().fresh(0), workload().fresh(0)
    train_on(replace(kept, set_to_none=False), one_batch(kept))
    train_on(freed, one_batch(freed))
    assert all(parameter.grad is not None for parameter in kept.model.parameters())
    assert all(parameter.grad is None for parameter in freed.model.parameters())


def test_a_scaler_steps_in_place_of_the_optimizer():
    subject = replace(workload().fresh(0), scaler=torch.amp.GradScaler("cpu", init_scale=4.0))
    before = [parameter.detach().clone() for parameter in subject.model.parameters()]
    train_on(subject, one_batch(subject))
    assert any(not torch.equal(a, b) for a, b in zip(before, subject.model.parameters(), strict=True))


def test_data_that_run_out_are_an_error_a_user_can_read():
    subject = workload().fresh(0)
    empty = replace(subject, feed=replace(subject.feed, batch_size=1000))
    with pytest.raises(TargetError, match="ran out"):
        stepper(empty).take(1)


def test_a_turn_after_one_that_raised_counts_only_itself():
    calls = []

    def loss(output, target):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")
        return nn.functional.cross_entropy(output, target)

    turns = stepper(workload(loss=loss).fresh(0))
    with pytest.raises(ValueError):
        turns.take(1)
    # One start, then collate twice, forward, loss, backward, optimizer, data, stop: eight intervals of a tick.
    assert turns.take(1).time.wall == pytest.approx(0.008)


def test_evaluating_gives_the_mode_back_when_the_inside_raises():
    subject = workload().fresh(0)
    with pytest.raises(ValueError), evaluating(subject):  # noqa: PT012
        assert not subject.model.training
        assert not torch.is_grad_enabled()
        raise ValueError
    assert subject.model.training
    assert torch.is_grad_enabled()


def test_the_loss_is_computed_inside_the_forward_contexts():
    subject = workload().fresh(0).with_forward(lambda: torch.autocast("cpu", torch.bfloat16))
    batch = one_batch(subject)
    plain = forward_loss(workload().fresh(0), batch)
    assert forward_loss(subject, batch) != plain


def test_workers_that_mostly_sleep_crowd_one_core_together():
    turn = Turn(steps=10, time=Split(running=0.03, waiting=0.03, blocked=0.04))
    sleepers = Bystanders(dict.fromkeys(range(8), (0.006, 0.0)), ended=0.0, busy=0.078)
    alone = beside_others(turn, sleepers, cores=1)
    assert alone.crowded
    assert alone.per_step == pytest.approx(0.01), (
        "nobody else had the core: all of the waiting is for one's own workers"
    )
    assert not beside_others(turn, sleepers, cores=16).crowded
