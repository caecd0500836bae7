"""Axes in another order by name only."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.audits.scrambled_pixels import scrambled_pixels


@pytest.mark.parametrize("seed", range(5))
def test_a_view_is_told_from_a_permute(seed):
    assert scrambled_pixels(specimen("images", seed=seed)) is None
    viewed = lambda part: replace(part, x=np.ascontiguousarray(part.x.transpose(0, 2, 3, 1)).reshape(part.x.shape))
    finding = scrambled_pixels(specimen("images", seed=seed, train=viewed))
    assert "permute" in finding.fix
    assert finding.exhibits[0].picture
