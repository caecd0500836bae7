"""What accuracy hides (ledger A-200)."""

import numpy as np
import pytest

from netdyno.audits._specimens import specimen
from netdyno.audits.hidden_imbalance import hidden_imbalance


def shares(share, count=3000):
    y = (np.arange(count) < share * count).astype(np.int64)
    part = {"x": np.random.default_rng(0).normal(size=(count, 4)), "y": y, "indices": np.arange(count)}
    return specimen("table", classes=2, columns=(), train=part, val=part)


def test_the_guess_of_a_base_rate_of_three_in_a_thousand_is_called_out():
    finding = hidden_imbalance(shares(0.003))
    assert finding.because["guess"] == pytest.approx(0.997)
    assert finding.because["balanced"] == 0.5
    assert finding.because["average_precision_of_a_guess"] == pytest.approx(0.003)
    assert "99.70%" in finding.says


@pytest.mark.parametrize("share", [0.5, 0.25, 0.1])
def test_shares_that_a_score_shows_are_left_alone(share):
    assert hidden_imbalance(shares(share)) is None
