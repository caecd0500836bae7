"""McNemar's test, Tango's interval, and how many rows would tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.stats.proportions import mcnemar, paired_difference, rows_to_tell


def test_the_exact_test_is_a_sign_test_on_the_rows_that_changed():
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(10, 0) == pytest.approx(2 / 2**10)


def test_the_interval_is_that_of_tangos_score():
    # Where no row changed the score test rejects a drop of d when sqrt(n d / (1 - d)) > z.
    z = 1.959963984540054
    for rows in (20, 597, 10_000):
        assert paired_difference(0, 0, rows).high == pytest.approx(z * z / (rows + z * z), rel=1e-6)


@pytest.mark.parametrize(
    ("rows", "lost", "won"), [(600, 0.004, 0.002), (600, 0.01, 0.01), (2000, 0.006, 0.003), (150, 0.04, 0.01)]
)
def test_it_holds_the_truth_about_as_often_as_it_says(rows, lost, won):
    chance = np.random.default_rng(0)
    draws = chance.multinomial(rows, [lost, won, 1 - lost - won], size=600)
    held = np.mean([paired_difference(int(a), int(b), rows).holds(lost - won) for a, b, _ in draws])
    # 600 draws leave an error of 0.9 points; score intervals of rare events stay within 2 of their level.
    assert 0.925 <= held <= 0.995


@given(st.integers(0, 40), st.integers(0, 40), st.integers(81, 5000))
def test_it_turns_round_with_its_sides_and_holds_its_middle(lost, won, rows):
    one, other = paired_difference(lost, won, rows), paired_difference(won, lost, rows)
    assert one.low <= one.middle <= one.high
    assert one.low == pytest.approx(-other.high, abs=1e-9)
    assert one.low >= -1
    assert one.high <= 1


def test_more_rows_at_the_same_rate_make_it_narrower():
    widths = [paired_difference(0.01 * rows, 0.005 * rows, rows).width for rows in (200, 2000, 20_000)]
    assert widths == sorted(widths, reverse=True)


@given(st.integers(0, 12), st.integers(0, 12), st.integers(100, 1500))
def test_as_many_rows_as_it_asks_for_do_tell(lost, won, rows):
    needed = rows_to_tell(lost, won, rows, 0.005)
    if needed is None:
        assert abs((lost - won) / rows - 0.005) < 5e-4
        return
    found = paired_difference(lost / rows * needed, won / rows * needed, needed)
    assert found.high <= 0.005 + 1e-9 or found.low > 0.005 - 1e-9


def test_a_drop_that_is_the_limit_is_never_told():
    assert rows_to_tell(5, 0, 1000, 0.005) is None


@pytest.mark.parametrize(("lost", "won", "rows"), [(0, 0, 0), (-1, 0, 10), (8, 8, 10)])
def test_counts_that_cannot_be_are_refused(lost, won, rows):
    with pytest.raises(ValueError):
        paired_difference(lost, won, rows)
