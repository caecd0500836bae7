import pytest

from netdyno.records.measured import Interval
from netdyno.verdicts import words


@pytest.mark.parametrize(
    ("level", "said"),
    [(0.9, "90 %"), (0.95, "95 %"), (0.999, "99.9 %"), (0.99958, "99.95 %"), (0.9999999, "99.99999 %"), (1.0, "100 %")],
)
def test_a_level_is_never_said_rounder_than_it_is(level, said):
    assert words.level_of(Interval(middle=0.0, low=0.0, high=0.0, level=level)) == said


def test_a_narrow_interval_gets_a_decimal():
    assert words.saved(Interval(middle=0.231, low=0.224, high=0.238)) == "23.1 % of a step (95 %: 22.4 to 23.8 %)"
    assert words.saved(Interval(middle=0.23, low=0.2, high=0.26)) == "23 % of a step (95 %: 20 to 26 %)"


def test_a_cost_is_said_without_minus_signs():
    assert words.costs(Interval(middle=-0.1, low=-0.2, high=-0.05)) == "10 % of a step (95 %: 5 to 20 %)"


def test_nothing_is_not_said_to_be_minus_nothing():
    assert words.percent(-0.0001) == "0 %"


def test_bytes_and_seconds_wear_the_unit_that_fits():
    assert words.said_bytes(512) == "512 B"
    assert words.said_bytes(3.2e9) == "3.2 GB"
    assert words.said_seconds(41.0) == "41.0 s"
    assert words.said_seconds(0.00002) == "20 µs"
