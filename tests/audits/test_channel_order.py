"""Red and blue in their places."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.audits.channel_order import channel_order


@pytest.mark.parametrize("seed", range(5))
def test_reversed_channels_are_found_and_right_ones_are_not(seed):
    assert channel_order(specimen("images", seed=seed)) is None
    turned = specimen("images", seed=seed, val=lambda part: replace(part, x=part.x[:, ::-1]))
    assert channel_order(turned).confidence > 0.7


def test_pictures_whose_outer_channels_are_alike_say_nothing():
    grey = lambda part: replace(part, x=np.repeat(part.x[:, :1], 3, axis=1))
    assert channel_order(specimen("images", train=grey, val=grey)) is None
