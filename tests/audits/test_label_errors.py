"""Wrong labels are told from hard samples."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real, split
from netdyno.audits._base import SURE, Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.label_errors import label_errors


def flipped(share):
    def change(part):
        chance = np.random.default_rng(3)
        kinds = part.y.max() + 1
        wrong = chance.random(len(part)) < share
        return replace(part, y=np.where(wrong, (part.y + chance.integers(1, kinds, len(part))) % kinds, part.y))

    return change


@pytest.mark.parametrize("name", CLASSES)
def test_real_sets_have_no_labels_to_complain_of(name):
    assert label_errors(real(name)) is None


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_flipped_labels_of_the_digits_are_found_with_their_share(share):
    finding = label_errors(changed(real("digits"), train=flipped(share)))
    assert finding.because["contradicted"] == pytest.approx(share, abs=0.04)
    assert finding.because["at_least"] < share


def test_the_samples_that_are_shown_are_those_that_were_flipped():
    clean = real("digits")
    dirty = changed(clean, train=flipped(0.1))
    shown = [one.index for one in label_errors(dirty).exhibits]
    assert len(shown) == 8
    assert all(clean.train.y[row] != dirty.train.y[row] for row in shown)


def test_an_exhibit_names_the_given_and_the_likely_label():
    clean = real("digits")
    first = label_errors(changed(clean, train=flipped(0.1))).exhibits[0]
    assert f"looks like {clean.train.y[first.index]}" in first.says


def test_labels_that_are_random_by_nature_are_not_wrong():
    chance = np.random.default_rng(0)
    x = chance.normal(size=(800, 6))
    for steepness in (0.5, 1.0, 2.0):
        odds = steepness * x.sum(1) / np.sqrt(6)
        y = (chance.random(800) < 1 / (1 + np.exp(-odds))).astype(int)
        assert label_errors(split(x, y)) is None


def test_a_target_that_inputs_hardly_tell_is_not_wrong():
    view = real("diabetes")
    middle = np.median(view.train.y)
    halves = {name: replace(part, y=(part.y > middle).astype(int)) for name, part in view.parts.items()}
    assert label_errors(replace(view, parts=halves, task="classes", classes=("low", "high"))) is None


def test_pictures_are_shown_as_pictures():
    finding = label_errors(specimen("images", sizes=(300, 60), train=flipped(0.3)))
    assert finding.exhibits[0].picture


def test_without_cleanlab_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cleanlab", None)
    with pytest.raises(Skip, match=r"netdyno\[data\]"):
        label_errors(specimen("table"))


def test_few_samples_are_not_judged():
    with pytest.raises(Skip, match="too few"):
        label_errors(specimen("table", sizes=(60, 30)))


def test_models_that_only_guess_the_commonest_class_contradict_nobody():
    chance = np.random.default_rng(0)
    assert label_errors(split(chance.normal(size=(600, 5)), (chance.random(600) < 0.3).astype(int))) is None


def test_what_people_choose_next_is_random_by_nature_and_at_most_a_suspicion():
    chance = np.random.default_rng(0)
    taste = chance.integers(0, 5, 800)
    x = np.eye(5)[taste] + 0.1 * chance.normal(size=(800, 5))
    y = np.where(chance.random(800) < 0.5, taste, chance.integers(0, 5, 800))
    finding = label_errors(split(x, y))
    assert finding is None or finding.confidence < SURE
