"""Faster only where the same comes out (ledger A-087)."""

import numpy as np

from netdyno.learning.data.preprocess import faster


def loop(image):
    after = np.empty_like(image)
    for row in range(image.shape[0]):
        for column in range(image.shape[1]):
            after[row, column] = (image[row, column] - 0.5) / 0.25
    return after


def vectorised(image):
    return (image - 0.5) / 0.25


def samples():
    return list(np.random.default_rng(0).random((3, 24, 24)))


def test_a_vectorised_loop_gives_the_same_and_is_faster_by_a_measured_ratio():
    found = faster(loop, vectorised, samples())
    assert found.same
    assert found.kept
    assert 1 < found.times.low <= found.times.middle <= found.times.high


def test_a_faster_way_to_something_else_is_none():
    found = faster(loop, lambda image: image, samples())
    assert not found.same
    assert found.times is None
    assert found.worst > 1


def test_a_hole_that_only_one_has_is_a_difference():
    assert not faster(vectorised, lambda image: np.full_like(image, np.nan), samples()).same


def fake(costs):
    """A clock that goes on by what each way costs."""
    now = [0.0]

    def way(name):
        def run(sample):
            now[0] += next(costs[name])
            return sample

        return run

    return way("one"), way("other"), lambda: now[0]


def test_two_equal_ways_are_not_told_apart():
    chance = np.random.default_rng(0)
    costs = {name: iter(lambda: float(chance.uniform(0.9, 1.1)), None) for name in ("one", "other")}
    one, other, clock = fake(costs)
    found = faster(one, other, samples(), clock=clock)
    assert "not distinguishable" in found.says
    assert not found.kept


def test_the_ratio_is_that_of_the_clock():
    one, other, clock = fake({"one": iter(lambda: 3.0, None), "other": iter(lambda: 1.0, None)})
    assert abs(faster(one, other, samples(), clock=clock).times.middle - 3.0) < 1e-9
