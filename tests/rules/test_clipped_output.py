"""Which last activations keep a model from its targets."""

import pytest

from netdyno.rules._calls import losses, used
from netdyno.rules.clipped_output import _net, clipped_output


@pytest.mark.parametrize(
    ("activation", "low", "high", "told"),
    [
        ("relu", -2.0, 3.0, True),
        ("relu", 0.0, 300.0, False),
        ("sigmoid", 0.0, 1.0, False),
        ("sigmoid", -1.0, 1.0, True),
        ("tanh", -1.0, 1.0, False),
        ("tanh", -5.0, 5.0, True),
        ("gelu", -5.0, 5.0, False),
    ],
)
def test_targets_well_outside_of_the_range_are_told(activation, low, high, told):
    found = clipped_output(losses(used("mse_loss", target_low=low, target_high=high)), _net(activation))
    assert (found is not None) == told
