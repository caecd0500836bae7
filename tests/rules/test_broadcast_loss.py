"""Which shapes compare each output with each target."""

import pytest

from netdyno.rules._calls import losses, used
from netdyno.rules.broadcast_loss import broadcast_loss


@pytest.mark.parametrize(
    ("output", "target", "spreads"),
    [
        ((32, 1), (32,), True),
        ((32,), (32, 1), True),
        ((32, 1), (32, 1), False),
        ((32, 4), (4,), False),
        ((1,), (32,), False),
        ((), (), False),
    ],
)
def test_only_what_becomes_larger_than_both_is_told(output, target, spreads):
    found = broadcast_loss(losses(used("mse_loss", input_shape=output, target_shape=target)))
    assert (found is not None) == spreads


def test_evaluation_alone_is_left_alone():
    assert broadcast_loss(losses(used("mse_loss", input_shape=(8, 1), target_shape=(8,), training=False))) is None
