"""Numbers as people read them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netdyno.records.measured import Interval
from netdyno.reports import _info, _units, markdown, text

finite = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


@pytest.mark.parametrize("module", [_units, _info, text, markdown])
def test_the_examples_in_the_docstrings_hold(module):
    outcome = doctest.testmod(module)
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.0, "0 ms"),
        (3e-9, "3.00 ns"),
        (0.00099999, "1.00 ms"),
        (0.0124, "12.4 ms"),
        (59.96, "60.0 s"),
        (119.0, "119 s"),
        (600.0, "10.0 min"),
        (9000.0, "2.50 h"),
        (-0.0251, "−25.1 ms"),
    ],
)
def test_a_time_has_the_unit_that_fits_it(seconds, written):
    assert _units.duration(seconds) == written


def test_a_range_shares_one_unit_and_no_more_digits_than_its_width_deserves():
    assert str(_units.ranged_time(Interval(middle=0.01243, low=0.01231, high=0.01256))) == "12.4 ms (12.3 to 12.6 ms)"
    assert str(_units.ranged_share(Interval(middle=0.0304, low=0.022, high=0.037))) == "3.0 % (2.2 to 3.7 %)"
    assert str(_units.ranged_share(Interval(middle=0.341, low=0.31, high=0.372))) == "34 % (31 to 37 %)"


def test_a_range_around_nothing_keeps_its_signs():
    assert str(_units.ranged_time(Interval(middle=0.00003, low=-0.00011, high=0.00017))) == "30 µs (−110 to 170 µs)"


@given(finite, finite, finite)
def test_every_interval_can_be_written(one, two, three):
    low, middle, high = sorted((one, two, three))
    for writer in (_units.ranged_time, _units.ranged_share, _units.ranged_times):
        written = str(writer(Interval(middle=middle, low=low, high=high)))
        assert " to " in written
        assert "-" not in written
        assert "e+" not in written


@given(st.text())
def test_plain_text_moves_no_cursor(said):
    kept = _units.plain(said)
    assert "\x1b" not in kept
    assert "\r" not in kept
    assert _units.plain(kept) == kept


def test_a_sequence_that_a_removal_would_reveal_is_removed_too():
    assert "\x1b" not in _units.plain("\x1b\x1b[31m[31mred")
