"""Scalers that saw all samples leave exact sums (ledger A-084)."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, everywhere, real
from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.early_statistics import early_statistics


def scaled(view, on, *, ranged=False):
    rows = np.vstack([view.parts[name].rows for name in on])
    low, width = (rows.min(0), np.ptp(rows, axis=0)) if ranged else (rows.mean(0), rows.std(0))
    width = np.where(width > 0, width, 1.0)
    return everywhere(view, lambda part: replace(part, x=((part.rows - low) / width).astype(np.float32)))


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_raw_real_sets_are_left_alone(name):
    assert early_statistics(real(name)) is None


@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_a_scaler_fitted_on_training_is_left_alone(name, ranged):
    assert early_statistics(scaled(real(name), ("train",), ranged=ranged)) is None


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_a_scaler_fitted_on_everything_is_found(name):
    finding = early_statistics(scaled(real(name), ("train", "val")))
    assert "train and val together" in finding.says
    assert finding.because["mean_of_all"] < 1e-5 < finding.because["mean_of_training"]


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_ranges_fitted_on_everything_are_found(name):
    assert "0 to 1" in early_statistics(scaled(real(name), ("train", "val"), ranged=True)).says


def test_it_says_which_splits_took_part():
    view = real("wine")
    rest = replace(view.parts["val"], name="test", x=view.parts["val"].x + 1)
    finding = early_statistics(
        replace(scaled(view, ("train", "val")), parts={**scaled(view, ("train", "val")).parts, "test": rest})
    )
    assert "of train and val together" in finding.says


def test_pixels_that_end_at_0_and_1_by_nature_are_left_alone():
    view = real("digits")
    assert early_statistics(everywhere(view, lambda part: replace(part, x=part.x / 16))) is None


def test_sums_of_some_of_the_samples_prove_nothing():
    with pytest.raises(Skip, match="sums over all"):
        early_statistics(specimen("table", train={"total": 10_000}))
