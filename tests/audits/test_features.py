"""Numbers for each sample."""

from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._base import Skip
from netdyno.audits._features import bits_apart, features, filled, grey_small, hashes, nearest, shapes
from netdyno.audits._pictures import shown, splits
from netdyno.audits._specimens import specimen


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
def test_a_copied_sample_is_nearest_to_its_original(modality):
    view = specimen(modality)
    copied = np.arange(10)
    x = [view.train.x[at] for at in copied] if modality == "text" else view.train.x[copied]
    view = specimen(modality, val={"x": x, "y": view.train.y[copied], "indices": copied})
    rows = features(view)
    distances, places = nearest(rows["val"], rows["train"])
    assert places[:, 0].tolist() == copied.tolist()
    assert distances.max() < 1e-6


def test_missing_cells_do_not_spread():
    holes = specimen("table").train.x.copy()
    holes[::7, 2] = np.nan
    holes[3, 1] = np.inf
    view = specimen("table", train={"x": holes})
    assert np.isfinite(features(view)["train"]).all()
    assert filled(view)["train"][0, 2] == np.nanmedian(np.concatenate((holes[:, 2], view.parts["val"].x[:, 2])))


def test_they_are_computed_once_per_view():
    view = specimen("images")
    assert features(view) is features(view)
    assert features(view) is not features(replace(view, seed=1))


def test_an_empty_split_is_a_reason_to_skip():
    part = specimen("table").train
    with pytest.raises(Skip, match="empty"):
        features(specimen("table", val={"x": part.x[:0], "y": part.y[:0], "indices": part.indices[:0]}))


def test_hashes_of_a_brighter_or_noisier_picture_stay_near_and_others_are_far():
    view = specimen("images")
    kin = np.clip(view.train.x * 0.8 + 0.1 + np.random.default_rng(0).normal(0, 0.01, view.train.x.shape), 0, 1)
    view = specimen("images", val={"x": kin, "indices": np.arange(len(kin))})
    bits = hashes(view)
    assert np.median(bits_apart(bits["val"], bits["train"])) <= 4
    assert np.median(bits_apart(bits["val"][1:], bits["train"][:-1])) > 16


def test_a_small_grey_picture_keeps_the_mean():
    images = np.random.default_rng(0).random((3, 3, 30, 50))
    assert grey_small(images, 16).shape == (3, 16, 16)
    assert np.allclose(grey_small(images, 10).mean((1, 2)), images.mean((1, 2, 3)))


@pytest.mark.parametrize("modality", ["images", "table", "text", "series"])
def test_every_sample_can_be_shown_in_a_line_or_as_a_picture(modality):
    view = specimen(modality)
    exhibit = shown(view, view.train, 5, "the sixth")
    assert exhibit.index == 5
    assert len(exhibit.shows) <= 110
    assert "kind" in exhibit.shows
    assert bool(exhibit.picture) == (modality == "images")


def test_the_splits_can_be_drawn_even_of_one_column():
    assert splits(specimen("table")).startswith("iVBOR")
    flat = specimen(
        "table", train=lambda part: replace(part, x=part.x[:, :1]), val=lambda part: replace(part, x=part.x[:, :1])
    )
    assert splits(flat).startswith("iVBOR")


def test_infinite_pixels_do_not_spread():
    broken = specimen("images").train.x.copy()
    broken[3, 0, 0, 0], broken[4, 1, 2, 2] = -np.inf, np.nan
    view = specimen("images", train={"x": broken})
    assert np.isfinite(features(view)["train"]).all()
    assert np.isfinite(shapes(broken)).all()
    assert hashes(view)["train"].shape == (240,)
