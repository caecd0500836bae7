"""The series and its windows."""

import pytest
import torch

from netdyno.targets.garage import lstm


def test_a_window_is_a_year_and_its_target_lies_a_quarter_ahead():
    inputs, targets = lstm.windows(torch.arange(70.0))
    assert inputs.shape == (6, lstm.YEAR, 1)
    assert inputs[0, -1] == 0
    assert targets[0].item() == pytest.approx(lstm.AHEAD / lstm.SPREAD)


def test_without_statsmodels_a_series_is_generated_and_named_so(monkeypatch):
    monkeypatch.setattr(lstm, "SOURCE", "generated")
    assert torch.equal(lstm.series(), lstm.generated())
    assert torch.equal(lstm.generated(), lstm.generated())


def test_the_measured_series_has_no_gaps():
    if lstm.SOURCE == "generated":
        pytest.skip("statsmodels is not installed; `pip install netdyno[series]`")
    values = lstm.series()
    assert len(values) == 2284
    assert 300 < values.min() < values.max() < 400
