"""Pieces of series: thinned out, and true all the same."""

import math

import numpy as np
import pytest

from dashboard.specimens import journal
from netdyno.dashboard.pieces import newest, piece, trailing_mean
from netdyno.store.journal import Run


def written(tmp_path, values):
    return Run(journal(tmp_path, losses=values).folder)


def test_a_long_series_is_thinned_and_keeps_its_peaks(tmp_path):
    values = [0.0] * 5000
    values[1234], values[4321] = 9.0, -9.0
    told = piece(written(tmp_path, values), "loss", points=100)
    assert len(told.values) <= 104
    assert told.next == 5000
    assert told.high == (1235, 9.0)
    assert told.low == (4322, -9.0)
    assert {9.0, -9.0} <= set(told.values)


def test_what_is_no_number_is_named_and_counted(tmp_path):
    told = piece(written(tmp_path, [1.0, math.nan, math.inf, -math.inf]), "loss")
    assert told.values == [1.0, None, None, None]
    assert [name for _, _, name in told.odd] == ["NaN", "∞", "-∞"]
    assert told.count_odd == 3
    assert (told.last, told.last_is) == (None, "-∞")


def test_of_many_that_are_no_number_the_first_and_the_last_are_told(tmp_path):
    told = piece(written(tmp_path, [1.0] + [math.nan] * 5000), "loss")
    assert told.count_odd == 5000
    assert len(told.odd) <= 200
    assert (told.odd[0][0], told.odd[-1][0]) == (2, 5001)


def test_a_series_that_begins_anew_is_told_from_the_beginning(tmp_path):
    told = piece(written(tmp_path, [1.0, 2.0]), "loss", start=50)
    assert (told.start, told.values) == (0, [1.0, 2.0])


def test_a_name_that_is_not_there_has_no_points(tmp_path):
    told = piece(written(tmp_path, [1.0]), "nothing")
    assert (told.values, told.next, told.last, told.low) == ([], 0, None, None)


@pytest.mark.parametrize("start", [0, 1, 3, 7, 10])
@pytest.mark.parametrize("width", [2, 5, 20])
def test_a_mean_is_the_same_whether_it_travels_at_once_or_in_pieces(tmp_path, start, width):
    values = [float(v) for v in np.random.default_rng(0).normal(size=10)]
    run = written(tmp_path, values)
    told = piece(run, "loss", start=start, smooth=width)
    wanted = [np.mean(values[max(0, at - width + 1) : at + 1]) for at in range(start, 10)]
    assert told.smooth == pytest.approx(wanted)


def test_a_mean_passes_over_what_is_no_number_and_forgets_a_huge_value():
    values = np.array([1e300, math.nan, math.inf, 1.0, 3.0])
    means = trailing_mean(values, np.array([1, 2, 4]), width=2)
    assert means[0] == 1e300
    assert math.isnan(means[1])
    assert means[2] == 2.0


def test_of_histograms_only_the_newest_of_each_thing_travel():
    events = [{"kind": "histogram", "of": of, "at": at} for at, of in enumerate("abab")]
    assert [each["at"] for each in newest([*events, {"kind": "alert", "at": 4}])] == [2, 3, 4]
