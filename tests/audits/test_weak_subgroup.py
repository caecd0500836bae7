"""A group that is answered far worse."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real
from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.weak_subgroup import weak_subgroup


def of_another_machine(noise, *, marked=True):
    """A quarter of the scans is noisy, and marked in a pixel that is always blank."""

    def change(part):
        chance = np.random.default_rng(len(part))
        old = chance.random(len(part)) < 0.25
        x = np.array(part.x)
        x[old] += chance.normal(0, noise, x[old].shape)
        if marked:
            x[:, 0] = 16 * old
            return replace(part, x=x)
        return replace(part, x=x, groups=np.where(old, "old", "new"))

    return change


@pytest.mark.parametrize("name", CLASSES)
def test_real_sets_have_none(name):
    try:
        assert weak_subgroup(real(name)) is None
    except Skip as why:
        assert "no column has few values" in str(why)  # noqa: PT017 - a set without groups says so


def test_noisy_scans_are_found_by_their_mark():
    finding = weak_subgroup(changed(real("digits"), train=of_another_machine(12)))
    assert "`c0` = 16" in finding.says
    assert finding.because["rest"] - finding.because["score"] > 0.25


def test_they_are_found_by_the_name_of_their_group():
    finding = weak_subgroup(changed(real("digits"), train=of_another_machine(12, marked=False)))
    assert "group `old`" in finding.says


def test_a_little_noise_is_silent():
    assert weak_subgroup(changed(real("digits"), train=of_another_machine(0.5))) is None


def test_a_group_of_a_hard_class_is_no_weaker_than_its_class():
    view = real("iris", share=0.2)
    hard = changed(view, train=lambda part: replace(part, x=part.x[:, :2], groups=(part.y == 2).astype(int)))
    assert (
        weak_subgroup(
            replace(hard, parts={"train": hard.train, "val": replace(hard.parts["val"], x=hard.parts["val"].x[:, :2])})
        )
        is None
    )


def test_without_groups_it_says_so():
    with pytest.raises(Skip, match="no groups are named"):
        weak_subgroup(specimen("text"))
