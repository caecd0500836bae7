"""Only the fact counts: were gradients gone at any time between two steps of their optimizer?"""

import pytest

from netdyno.rules.uncleared_gradients import _optimizer, _trace, uncleared_gradients


@pytest.mark.parametrize(
    ("uncleared", "checked", "found"), [(39, 39, True), (38, 39, False), (4, 4, False), (5, 5, True)]
)
def test_every_single_look_must_agree(uncleared, checked, found):
    finding = uncleared_gradients(_trace(_optimizer(uncleared=uncleared, checked=checked)))
    assert (finding is not None) == found


def test_the_one_of_two_optimizers_that_nobody_clears_is_told():
    finding = uncleared_gradients(_trace(_optimizer(uncleared=0), _optimizer(uncleared=39, index=1)))
    assert finding.because["uncleared"] == 39


def test_sums_over_micro_batches_are_not_judged():
    assert uncleared_gradients(_trace(_optimizer(uncleared=39, accumulates=True))) is None
