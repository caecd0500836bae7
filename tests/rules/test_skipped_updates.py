"""Searching for a scale against overflowing for good."""

import pytest

from netdyno.rules.skipped_updates import _order, skipped_updates


@pytest.mark.parametrize("first", [0, 1, 8, 16])
def test_the_search_for_a_scale_may_halve_it_sixteen_times(first):
    assert skipped_updates(_order(skipped=first, late=0)) is None


def test_a_seventeenth_skip_is_no_search():
    assert skipped_updates(_order(skipped=17, late=0)) is not None


@pytest.mark.parametrize(("late", "steps", "found"), [(1, 60, False), (2, 60, False), (5, 60, True), (2, 4000, False)])
def test_one_trial_of_a_larger_scale_is_healthy_and_a_series_is_not(late, steps, found):
    assert (skipped_updates(_order(skipped=late, late=late, steps=steps)) is not None) == found


def test_a_step_thrown_away_was_computed_in_full():
    assert skipped_updates(_order(skipped=30, late=30)).saves.high == pytest.approx(0.5)
