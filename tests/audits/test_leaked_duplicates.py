"""Copies across splits, and what only looks like them."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import datasets

from netdyno.audits._arrays import view_of
from netdyno.audits._base import Part
from netdyno.audits._specimens import specimen
from netdyno.audits.leaked_duplicates import _with_copies, leaked_duplicates


def split(x, y, seed, copied=0, change=lambda rows: rows):
    order = np.random.default_rng(seed).permutation(len(y))
    train, val = order[: len(y) * 7 // 10], order[len(y) * 7 // 10 :]
    judged = x[val].copy()
    judged[:copied] = change(x[train[:copied]])
    parts = {
        name: Part(name=name, x=rows, y=y[chosen], indices=np.arange(len(chosen)), total=len(chosen))
        for name, rows, chosen in (("train", x[train], train), ("val", judged, val))
    }
    return view_of("set", parts, seed=0)


SETS = ("iris", "wine", "breast_cancer", "diabetes", "digits")


def loaded(name):
    held = getattr(datasets, f"load_{name}")()
    return (held.images[:900] if name == "digits" else held.data), held.target[:900]


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("seed", range(3))
def test_clean_sets_are_left_alone_and_copies_are_found(name, seed):
    x, y = loaded(name)
    assert leaked_duplicates(split(x, y, seed)) is None
    # A tenth; of iris, whose rows of few digits are sometimes equal by nature, a fifth.
    many = len(y) * 3 // 10 // (5 if name == "iris" else 10)
    finding = leaked_duplicates(split(x, y, seed, copied=many))
    assert finding is not None
    assert finding.because["exact"] >= many
    assert {each.split for each in finding.exhibits} == {"train", "val"}


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows * 0.8 + 1,
        lambda rows: rows + np.random.default_rng(0).normal(0, 0.2, rows.shape),
        lambda rows: rows[..., ::-1],
    ],
    ids=["darker", "noisy", "mirrored"],
)
def test_a_picture_that_was_changed_a_little_is_still_a_copy(change):
    x, y = loaded("digits")
    finding = leaked_duplicates(split(x, y, 0, copied=40, change=change))
    assert finding is not None
    assert finding.because["share"] >= 0.8 * 40 / 270


def test_rows_of_few_levels_repeat_by_nature_and_more_of_them_than_that_are_a_leak():
    chance = np.random.default_rng(0)
    x, y = chance.integers(0, 2, (900, 9)).astype(float), chance.integers(0, 2, 900)
    assert leaked_duplicates(split(x, y, 0)) is None
    codes = chance.integers(0, 4, (900, 7)).astype(float)
    assert leaked_duplicates(split(codes, y, 0)) is None
    assert leaked_duplicates(split(codes, y, 0, copied=120)) is not None


def test_short_answers_repeat_by_nature():
    chance = np.random.default_rng(0)
    words = ["yes", "no", "thank you", "not working", "it is fine"]
    view = specimen("text", train=lambda part: replace(part, x=list(chance.choice(words, len(part)))))
    view = replace(view, parts={**view.parts, "val": replace(view.parts["val"], x=list(chance.choice(words, 120)))})
    assert leaked_duplicates(view) is None


def test_when_a_part_was_looked_at_it_says_how_many_there_may_be():
    view = _with_copies("table")
    partly = replace(view.train, total=4 * len(view.train))
    finding = leaked_duplicates(replace(view, parts={"train": partly, "val": view.parts["val"]}))
    assert "only 25% of `train` was looked at" in finding.says
