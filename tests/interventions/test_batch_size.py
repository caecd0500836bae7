"""Larger batches come with their learning rate, and what they gain is counted per item."""

import math
from dataclasses import replace

import pytest
import torch

from interventions.specimens import IMAGES, WORDS, account, facts, stepped, timeline
from netdyno.interventions._base import items_factor_of, written
from netdyno.interventions.batch_size import BatchSize, scaling
from netdyno.records.evidence import OpTable
from netdyno.records.trial import Change

WEIGHT = [torch.nn.Parameter(torch.zeros(2))]


class OwnAdam(torch.optim.AdamW):
    """What a user derives from a known optimizer follows the rule of that one."""


@pytest.mark.parametrize(
    ("optimizer", "factor", "scale"),
    [
        (torch.optim.SGD(WEIGHT, lr=0.1), 4, 4),
        (torch.optim.SGD(WEIGHT, lr=0.1, momentum=0.9), 2, 2),
        (torch.optim.Adam(WEIGHT), 4, 2),
        (torch.optim.AdamW(WEIGHT), 2, math.sqrt(2)),
        (torch.optim.RMSprop(WEIGHT), 4, 2),
        (OwnAdam(WEIGHT), 4, 2),
        (torch.optim.LBFGS(WEIGHT), 2, None),
        (torch.optim.Rprop(WEIGHT), 2, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, torch.optim.Optimizer) else str(value),
)
def test_the_rate_grows_linearly_for_sgd_and_with_the_root_for_the_adam_family(optimizer, factor, scale):
    assert scaling(optimizer, factor) == (None if scale is None else pytest.approx(scale))


def test_batches_and_rates_grow_and_come_back():
    subject = WORDS.fresh()
    with BatchSize(2).applied(subject) as larger:
        assert larger.feed.batch_size == 2 * subject.feed.batch_size
        assert subject.optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
        stepped(larger, 2)
    assert subject.optimizer.param_groups[0]["lr"] == 0.05


def test_every_group_keeps_its_own_rate():
    subject = WORDS.fresh()
    first, *rest = subject.model.parameters()
    optimizer = torch.optim.AdamW([{"params": [first], "lr": 1e-4}, {"params": rest, "lr": torch.tensor(1e-2)}])
    held = optimizer.param_groups[1]["lr"]
    with BatchSize(4).applied(replace(subject, optimizer=optimizer)):
        rates = [float(group["lr"]) for group in optimizer.param_groups]
    assert rates == pytest.approx([2e-4, 2e-2])
    assert optimizer.param_groups[0]["lr"] == 1e-4
    assert optimizer.param_groups[1]["lr"] is held
    assert float(held) == pytest.approx(1e-2)


def test_a_step_is_counted_by_its_items():
    assert BatchSize(4).items_factor == 4
    assert items_factor_of([written(BatchSize(4)), Change(id="channels-last")]) == 4
    assert items_factor_of([]) == 1


@pytest.mark.parametrize(
    ("factor", "batch_size", "because"),
    [(1, 8, "no larger batch"), (2, 8, "3 updates"), (2, 4, "6 updates"), (2, 3, None)],
)
def test_an_epoch_keeps_enough_updates(factor, batch_size, because):
    subject = IMAGES.fresh()  # 48 samples
    reason = BatchSize(factor).refuses(replace(subject, feed=replace(subject.feed, batch_size=batch_size)))
    assert reason is None if because is None else because in reason


def test_an_optimizer_without_a_rule_is_refused():
    subject = WORDS.fresh()
    other = replace(subject, optimizer=torch.optim.LBFGS(subject.model.parameters()))
    assert "`LBFGS`" in BatchSize().refuses(other)


def test_only_factors_that_fit_are_raced():
    assert [one.factor for one in BatchSize().settings(WORDS.fresh(), {})] == [2]
    subject = WORDS.fresh()
    small = replace(subject, feed=replace(subject.feed, batch_size=2))
    assert [one.factor for one in BatchSize().settings(small, {})] == [2, 4]


@pytest.mark.parametrize(
    ("factor", "low", "high"),
    [(2, 0.5 * 0.1, 0.5 * 0.4), (4, 0.75 * 0.1, 0.75 * 0.4)],
)
def test_the_gain_is_what_a_step_pays_once(factor, low, high):
    # A thousand operators of which each takes 2 µs to start, beside 28 ms of Python.
    table = OpTable(ops=(), dispatches=1000, operator_s=0.07, python_s=0.028)
    prediction = BatchSize(factor).predicts(facts(timeline(forward=30, backward=60, optimizer=10), table))
    assert prediction.low == pytest.approx(low)
    assert prediction.high == pytest.approx(high)


def test_a_step_of_pure_arithmetic_gains_nothing():
    table = OpTable(ops=(), dispatches=100, operator_s=0.1, python_s=0.0)
    assert BatchSize().predicts(facts(timeline(forward=40, backward=60), table)) is None


def test_a_batch_that_would_not_fit_is_not_predicted_to_gain():
    evidence = timeline(forward=50, optimizer=50)
    assert BatchSize().predicts(facts(evidence, account())) is not None
    assert BatchSize().predicts(facts(evidence, account(available=15 * 10**6))) is None
