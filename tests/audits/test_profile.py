"""What the data are, in numbers."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._profile import column, profile, statistics
from netdyno.audits._specimens import specimen


def test_statistics_to_normalise_with_come_from_the_training_split_alone():
    view = specimen("images", sizes=(600, 60))
    elsewhere = replace(
        view, parts={"train": view.train, "val": replace(view.parts["val"], x=view.parts["val"].x + 100)}
    )
    mean, deviation = statistics(view)
    assert np.allclose(mean, view.train.x.astype(np.float64).mean((0, 2, 3)))
    assert np.allclose(deviation, view.train.x.astype(np.float64).std((0, 2, 3)))
    assert statistics(elsewhere) == (mean, deviation)


def test_streaming_loses_no_digits_far_from_zero():
    rows = np.random.default_rng(0).normal(1e7, 1.0, (2000, 2))
    view = specimen("table", train={"x": rows, "y": None, "indices": np.arange(2000)})
    mean, deviation = statistics(replace(view, columns=()))
    assert np.allclose(mean, rows.mean(0), rtol=1e-12)
    assert np.allclose(deviation, rows.std(0), rtol=1e-9)


def test_missing_values_are_counted_and_left_out():
    rows = specimen("table").train.x.copy()
    rows[:10, 0] = np.nan
    view = specimen("table", train={"x": rows})
    told = profile(view).splits[0].columns[0]
    assert told.missing == 10
    assert statistics(view)[0][0] == pytest.approx(np.nanmean(rows[:, 0]), rel=1e-6)


def test_a_histogram_counts_every_value_and_the_skew_has_its_sign():
    values = np.random.default_rng(0).exponential(size=1000)
    told = column("waiting", values)
    assert sum(told.histogram) == 1000
    assert told.skew > 1
    assert column("mirrored", -values).skew < -1


def test_values_of_any_size_and_columns_without_any_are_described():
    assert column("huge", np.array([1e300, -1e300, 1.0])).high == 1e300
    assert column("empty", np.full(3, np.nan)).low is None
    assert column("flat", np.ones(3)).deviation == 0


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
def test_every_modality_has_a_profile_with_its_classes(modality):
    told = profile(specimen(modality))
    assert told.modality == modality
    assert [split.name for split in told.splits] == ["train", "val"]
    assert sum(told.splits[0].classes.values()) == 240
    assert told.splits[0].columns


def test_categories_are_counted_by_name():
    view = specimen("table", notes={"categories": {"column 6": ("a", "b", "c", "d")}})
    told = profile(view)
    assert sum(told.splits[0].columns[6].common.values()) == 240
    assert (told.mean[6], told.deviation[6]) == (0.0, 1.0)
