"""What constructing a loader again and again costs."""

import pytest

from netdyno.rules.rebuilt_loader import _use, rebuilt_loader


def test_the_first_construction_is_not_counted():
    finding = rebuilt_loader(_use(built=5, passes=5, build_s=0.1, start_s=0.4))
    assert finding.saves.high == pytest.approx(4 * 0.5 / 10)
    assert finding.saves.low == pytest.approx(4 * 0.1 / 10)


def test_without_workers_a_first_batch_is_like_any_other():
    assert rebuilt_loader(_use(workers=0, build_s=0.0, start_s=1.0)) is None


def test_a_loader_that_is_iterated_more_often_than_built_is_kept():
    assert rebuilt_loader(_use(built=3, passes=9)) is None


def test_nobody_is_told_of_less_than_a_twentieth():
    assert rebuilt_loader(_use(start_s=0.07)) is None
