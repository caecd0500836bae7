"""Only the fact counts: were gradients gone at any time between two steps of their optimizer?"""

import pytest

from netdyno.records.evidence import UpdateOrder
from netdyno.rules.uncleared_gradients import uncleared_gradients


@pytest.mark.parametrize(("updates", "never", "found"), [(40, True, True), (40, False, False), (4, True, False)])
def test_a_few_updates_prove_nothing(updates, never, found):
    assert (uncleared_gradients(UpdateOrder(updates=updates, never_cleared=never)) is not None) == found
