"""What counts as growth that goes on."""

import pytest

from netdyno.rules._growth import steady
from netdyno.rules.growing_graph import _graphs, _growth, growing_graph
from netdyno.rules.memory_leak import memory_leak


def series(per_update, *, jitter=0, stops=10**9):
    return [(at, 3e8 + per_update * min(at, stops) + jitter * (at % 7)) for at in range(0, 400, 4)]


def test_a_slope_with_a_little_noise_is_steady():
    assert steady(series(10_000, jitter=5_000)).per_update == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize(
    "numbers",
    [
        series(0),
        series(0, jitter=100_000),
        series(10_000, stops=200),
        [(at, 3e8 + 5e7 * (at > 200)) for at in range(0, 400, 4)],
        series(10_000)[:8],
        [],
    ],
)
def test_noise_a_jump_and_what_stops_are_not(numbers):
    assert steady(numbers) is None


def test_a_state_that_is_detached_between_epochs_is_found_within_them():
    epoch = [(60 * n, 60 * (n - 1)) for n in range(1, 12)]
    assert growing_graph(_growth(graphs=_graphs(*epoch, (60, 0), (120, 60)))) is not None


def test_truncated_back_propagation_is_left_alone():
    window = [(60 * n, 60 * (n - 1)) for n in (1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3)]
    assert growing_graph(_growth(graphs=_graphs(*window))) is None


def test_growth_without_a_cause_in_sight_is_nobodys_leak():
    from netdyno.rules.memory_leak import SICK
    from netdyno.rules.memory_leak import _growth as growth

    assert all(memory_leak(*case).confidence >= 0.7 for case in SICK)
    assert memory_leak(growth(500_000.0)) is None
