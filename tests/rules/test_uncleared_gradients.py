"""Only the fact counts: were gradients gone at any time between two steps of their optimizer?"""

import pytest

from netdyno.records.base import Place
from netdyno.records.evidence import UpdateOrder
from netdyno.records.learning import Gradients
from netdyno.rules.uncleared_gradients import uncleared_gradients


@pytest.mark.parametrize(("updates", "never", "found"), [(40, True, True), (40, False, False), (4, True, False)])
def test_a_few_updates_prove_nothing(updates, never, found):
    assert (uncleared_gradients(UpdateOrder(updates=updates, never_cleared=never)) is not None) == found


def test_it_points_at_the_backward_pass():
    line = Place(file="train.py", line=40)
    seen = Gradients(updates=40, looks=4, backward_where=line)
    finding = uncleared_gradients(UpdateOrder(updates=40, never_cleared=True), seen)
    assert finding.where == line
