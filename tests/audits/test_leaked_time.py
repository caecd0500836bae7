"""The future in training."""

import numpy as np
import pytest

from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.leaked_time import leaked_time

DAYS = np.datetime64("2024-01-01") + np.arange(400)


def timed(train, val):
    return specimen("table", train={"times": train}, val={"times": val})


def test_a_cut_at_a_moment_is_left_alone():
    assert leaked_time(timed(DAYS[:240], DAYS[240:360])) is None


def test_the_same_day_on_both_sides_of_the_cut_is_no_leak():
    assert leaked_time(timed(DAYS[:240], DAYS[239:359])) is None


def test_a_random_split_of_days_is_found_with_the_samples_that_have_a_later_training_sample():
    order = np.random.default_rng(0).permutation(360)
    finding = leaked_time(timed(DAYS[order[:240]], DAYS[order[240:]]))
    assert "mixed in time" in finding.says
    assert "training goes on until" in finding.exhibits[0].says


def test_training_on_the_future_to_judge_the_past_is_found():
    assert "come after all of" in leaked_time(timed(DAYS[120:360], DAYS[:120])).says


def test_without_times_a_table_is_skipped():
    with pytest.raises(Skip, match="no column of times"):
        leaked_time(specimen("table"))


def windows(step, gap):
    recording = np.cumsum(np.random.default_rng(0).normal(size=step * 400)).astype(np.float32)
    x = np.stack([recording[at : at + 64] for at in step * np.arange(390 - 64 // step)])
    return specimen("series", train={"x": x[:240]}, val={"x": x[240 + gap : 360]}), x


def test_windows_with_a_gap_at_the_cut_are_left_alone():
    view, _ = windows(step=8, gap=0)
    part = view.parts["val"]
    kept = part.__class__(name="val", x=part.x[8:], y=part.y[8:], indices=np.arange(112), total=112)
    assert leaked_time(view.__class__(**{**vars(view), "parts": {**view.parts, "val": kept}})) is None


def test_overlapping_windows_that_were_dealt_out_by_chance_are_found():
    _, x = windows(step=8, gap=0)
    order = np.random.default_rng(1).permutation(360)
    view = specimen("series", train={"x": x[order[:240]]}, val={"x": x[order[240:]]})
    finding = leaked_time(view)
    assert finding.because["share"] > 0.9


def test_flat_lines_and_square_waves_repeat_by_nature():
    square = np.tile(np.repeat((0.0, 1.0), 8), 4).astype(np.float32)
    x = np.stack([np.roll(square, at) for at in range(16)])
    view = specimen("series", train={"x": x[np.arange(240) % 16]}, val={"x": x[np.arange(120) % 16]})
    assert leaked_time(view) is None


def test_seconds_since_1970_are_told_as_dates():
    seconds = 1.7e9 + 3600.0 * np.arange(360)
    says = leaked_time(timed(np.tile(seconds[::3], 2), seconds[1:360:3])).says
    assert "`2023-11-1" in says
