"""What happens before a service calls itself ready."""

from statistics import median

import numpy as np
import pytest

from netdyno.measure.latency import Burst
from netdyno.progress import silent
from netdyno.serving.warm_up import Unstable, warmed
from serving.specimens import rows, toys, truth, written  # noqa: F401  the toys are a fixture


def warm(tmp_path, mood="", listener=silent, **settings):
    changes = {name: settings.pop(name) for name in ("running", "warm_up") if name in settings}
    package = written(tmp_path, mood, **changes)
    return warmed(package, package.call(), listener=listener, **settings)


def test_every_allowed_size_is_warmed_up_and_priced(tmp_path):
    seen = []
    found = warm(tmp_path, listener=seen.append)
    assert [one.rows for one in found.sizes] == [1, 2, 4, 8]
    assert found.costs.sizes == (1, 2, 4, 8)
    assert all(one.same for one in found.sizes)
    assert [event.doing for event in seen][:2] == ["warming up 1 row", "warming up 2 rows"]


def test_a_size_is_run_until_it_is_quick(tmp_path):
    """A runtime that compiles during its first rounds: each round is quicker until the third."""
    rounds = iter([1.0, 0.5, 0.1, 0.1])
    calls = []

    def timer(call):
        calls.append(len(calls))
        call(0)
        return Burst((next(rounds),) * 5, 0.0, 0.0, 0.0)

    found = warm(tmp_path, timer=timer, largest=1)
    assert len(calls) == 4
    assert median(found.sizes[0].usual) == 0.1


def test_a_first_answer_that_is_slow_after_the_warm_up_is_told(tmp_path):
    found = warm(tmp_path, timer=lambda call: Burst((1e-9,) * 5, 0.0, 0.0, 0.0), largest=2)
    assert not found.sizes[0].steady
    assert "times a usual one" in found.says[0]


def test_a_model_that_forgets_to_turn_dropout_off_is_not_served(tmp_path):
    with pytest.raises(Unstable, match="repeated calls gave other answers"):
        warm(tmp_path, "dropout")


def test_sizes_whose_rows_depend_on_their_neighbours_are_left_out(tmp_path):
    found = warm(tmp_path, "neighbours")
    assert [one.rows for one in found.sizes] == [1]
    assert "batches of 2 are left out" in found.says[0]


def test_rounding_in_batches_is_allowed_unless_exactness_is_asked_for(tmp_path):
    found = warm(tmp_path, "rounding")
    assert [(one.rows, one.same) for one in found.sizes] == [(1, True), (2, True), (4, False), (8, False)]
    assert [one.rows for one in warm(tmp_path, "rounding", exact=True).sizes] == [1, 2]


def test_batches_are_padded_to_what_is_warm(tmp_path):
    found = warm(tmp_path, "neighbours")
    assert found.call(rows(3))[0].shape == (3, 3)
    alone = [found.call((rows(3)[0][at : at + 1],))[0] for at in range(3)]
    assert np.array_equal(found.call(rows(3))[0], np.concatenate(alone))


def test_the_largest_size_may_be_bounded(tmp_path):
    assert [one.rows for one in warm(tmp_path, largest=3).sizes] == [1, 2]


def test_the_call_still_answers_as_the_package_did(tmp_path):
    found = warm(tmp_path)
    assert np.array_equal(found.call(rows(5))[0], truth(rows(5))[0])
