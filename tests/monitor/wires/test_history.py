import math
import random

import pytest

from netdyno.monitor.wires.history import IN_A_ROW, History


def trips(values):
    """The number of the first value that is an explosion; None where none is."""
    history = History()
    return next((at for at, value in enumerate(values) if history.judge(value) is not None), None)


def noisy(seed, length, level, spread):
    chance = random.Random(seed)
    return [level(at) * math.exp(chance.gauss(0.0, spread)) for at in range(length)]


HEALTHY = {
    "a falling loss": lambda seed: noisy(seed, 3000, lambda at: 2.3 * math.exp(-at / 400) + 0.001, 0.3),
    "a loss with heavy tails": lambda seed: noisy(seed, 3000, lambda _: 1.0, 1.5),
    "spikes of single batches": lambda seed: [
        value * (1000.0 if at % 97 == 60 else 1.0) for at, value in enumerate(noisy(seed, 3000, lambda _: 1.0, 0.3))
    ],
    "a reward that is found after long": lambda seed: noisy(seed, 2000, lambda at: 0.01 if at < 1000 else 3.0, 1.0),
    "returns that grow": lambda seed: noisy(seed, 2000, lambda at: 1.02 ** min(at, 500), 0.7),
    "a second phase": lambda seed: noisy(seed, 2000, lambda at: 0.05 if at < 1000 else 2.5, 0.2),
    "a warm-up": lambda seed: noisy(seed, 2000, lambda at: 1.0 + 0.2 * min(at, 100), 0.3),
    "the two sides of a game": lambda seed: noisy(seed, 3000, lambda at: 1.0 + 0.95 * math.sin(at / 50), 0.8),
    "values below zero": lambda seed: [random.Random(seed * 3000 + at).gauss(0.0, 1.0) for at in range(3000)],
    "zeros and rare others": lambda seed: [0.0 if at % 50 else value for at, value in enumerate(noisy(seed, 3000, lambda _: 1.0, 1.0))],
    "a loss that was learnt by heart, and wrong labels": lambda seed: [
        value * (3e4 if random.Random(seed * 3000 + at).random() < 0.01 else 1.0)
        for at, value in enumerate(noisy(seed, 3000, lambda at: max(2.3 * math.exp(-at / 100), 1e-5), 0.5))
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("seed", range(10))
def test_no_healthy_run_explodes(name, seed):
    assert trips(HEALTHY[name](seed)) is None


@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_times_as_much_that_stays_explodes_within_a_few_updates(seed):
    values = noisy(seed, 400, lambda at: 0.5 if at < 300 else 800.0, 0.3)
    assert 300 <= trips(values) < 300 + IN_A_ROW


@pytest.mark.parametrize("seed", range(10))
def test_steady_growth_explodes_though_each_value_is_near_the_last(seed):
    values = noisy(seed, 400, lambda at: 0.5 * (1.0 if at < 300 else 1.3 ** (at - 300)), 0.2)
    assert 300 < trips(values) < 345


def test_growth_from_the_first_value_on_needs_no_history():
    assert trips([2.3, 30.0, 500.0, 1e4, 1e6, 1e8, math.inf]) == 5


@pytest.mark.parametrize("last", [math.nan, math.inf])
def test_what_began_and_is_no_number_now_is_an_explosion(last):
    assert trips([1.0, 1.1, 0.9, 5.0, 50.0, last]) == 5


def test_what_is_no_number_all_of_a_sudden_is_told_by_another_wire():
    assert trips([1.0, 1.1, 0.9, math.nan]) is None


def test_a_value_a_million_times_higher_than_ever_explodes_at_once():
    assert trips([*noisy(0, 100, lambda _: 1.0, 0.3), 1e8]) == 100


def test_a_value_up_to_the_highest_so_far_is_no_explosion_and_may_wait_to_be_judged():
    history = History()
    assert history.most < 0  # nothing is usual yet
    for at in range(100):
        history.judge(2.0 - at / 100)
    assert 1.9 < history.most <= 2.0
    assert history.judge(history.most) is None


def test_calm_values_leave_the_history_that_judging_each_would_leave():
    draws = random.Random(7)
    one, other = History(), History()
    for value in [5.0, *(draws.lognormvariate(0.0, 0.2) for _ in range(60))]:
        one.judge(value)
        other.judge(value)
    calm = [value for value in (draws.lognormvariate(0.0, 0.3) for _ in range(200)) if value <= one.most] + [0.0, -0.5]
    assert [one.judge(value) for value in calm] == [None] * len(calm)
    other.calm(calm)
    assert vars(one) == vars(other)
