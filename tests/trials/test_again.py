"""A second chance goes to what lies near the line, while the budget lasts."""

import numpy as np
import pytest

from netdyno.records.measured import Interval, Measurement
from netdyno.records.record import Proposal
from netdyno.records.trial import Change, Trial, Verdict
from netdyno.trials.again import second_chance


def seconds(samples):
    return Measurement(quantity="step", unit="s", samples=tuple(samples))


def trial(name, *, form="in-process", pairs=40, cost_s=2.0, noise=0.03):
    chance = np.random.default_rng(0)
    return Trial(
        change=Change(id=name),
        against=(),
        form=form,
        numerics="same-bits",
        control=seconds(np.exp(chance.normal(0, noise, pairs))),
        treatment=seconds(np.exp(chance.normal(0, noise, pairs))),
        cost_s=cost_s,
    )


def verdict(number, low, middle, high, decision="undecided"):
    gain = Interval(middle=middle, low=low, high=high, level=0.999)
    return Verdict(trial=number, decision=decision, gain=gain, reasons=())


def proposal(name, refused=None):
    return Proposal(
        change=Change(id=name), layers=("compute",), numerics="same-bits", predicted_low=0.0, predicted_high=0.1,
        why="", effort=1.0, refused=refused,
    )  # fmt: skip


def chosen(rows, *, proposed=None, **more):
    names = [name for name, *_ in rows]
    settings = {"spent": {}, "chances": 2, "line": 0.05, "error": 0.001, "most_pairs": 400, "seconds": 20.0}
    return second_chance(
        [proposal(name) for name in names] if proposed is None else proposed,
        tuple(trial(name) for name in names),
        tuple(verdict(number, *gain) for number, (_, *gain) in enumerate(rows)),
        **(settings | more),
    )


def test_the_undecided_change_that_saved_most_is_tried_again():
    again = chosen([("fused-optimizer", 0.03, 0.05, 0.07), ("channels-last", 0.02, 0.06, 0.08)])
    assert again.proposal.change.id == "channels-last"


def test_the_nearer_to_the_line_the_more_pairs_as_far_as_the_seconds_go():
    far = chosen([("fused-optimizer", 0.03, 0.07, 0.11)])
    near = chosen([("fused-optimizer", 0.03, 0.054, 0.08)])
    assert 60 <= far.pairs < near.pairs
    assert near.seconds <= 20.0


@pytest.mark.parametrize(
    "gain",
    [
        (0.06, 0.07, 0.09, "keep"),
        (-0.01, 0.01, 0.03, "drop"),
        (-0.03, 0.01, 0.06),  # too far below the line
        (0.06, 0.07, 0.08),  # on one side of it, and undecided for another reason
    ],
)
def test_what_was_decided_or_is_far_from_the_line_is_left(gain):
    assert chosen([("fused-optimizer", *gain)]) is None


def test_nobody_gets_more_than_the_chances_that_the_error_was_shared_among():
    assert chosen([("fused-optimizer", 0.03, 0.05, 0.07)], spent={"fused-optimizer": 2}) is None


def test_too_few_seconds_for_more_pairs_are_not_spent():
    assert chosen([("fused-optimizer", 0.03, 0.05, 0.07)], seconds=2.5) is None


def test_a_change_that_is_in_the_recipe_or_refused_by_now_is_left():
    rows = [("fused-optimizer", 0.03, 0.05, 0.07)]
    assert chosen(rows, proposed=[]) is None
    assert chosen(rows, proposed=[proposal("fused-optimizer", refused="it fits no longer")]) is None


def test_trials_between_processes_are_not_repeated():
    found = second_chance(
        [proposal("loader-workers")],
        (trial("loader-workers", form="processes"),),
        (verdict(0, 0.03, 0.05, 0.07),),
        spent={}, chances=2, line=0.05, error=0.001, most_pairs=400, seconds=60.0,
    )  # fmt: skip
    assert found is None
