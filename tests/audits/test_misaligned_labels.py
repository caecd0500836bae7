"""Labels beside the wrong inputs."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, everywhere, real
from netdyno.audits._specimens import specimen
from netdyno.audits.misaligned_labels import misaligned_labels


def rolled(by):
    return lambda part: replace(part, y=np.roll(part.y, by))


def dealt_out(part):
    return replace(part, y=np.random.default_rng(len(part)).permutation(part.y))


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
def test_real_sets_are_aligned(name):
    assert misaligned_labels(real(name)) is None


@pytest.mark.parametrize("by", [1, -1, 2])
@pytest.mark.parametrize("name", ["iris", "digits", "diabetes"])
def test_rolled_labels_are_found_with_the_number_of_places(name, by):
    finding = misaligned_labels(everywhere(real(name), rolled(by)))
    assert finding.because["places"] == by


def test_labels_of_training_that_were_dealt_out_are_found_by_the_other_split():
    finding = misaligned_labels(changed(real("digits", share=0.4), train=dealt_out))
    assert "those of train explain none" in finding.says


def test_a_target_of_chance_is_not_misaligned():
    assert misaligned_labels(everywhere(real("digits"), dealt_out)) is None


def test_only_neighbours_that_were_both_read_are_paired():
    view = specimen("table", train=rolled(1), val=rolled(1))
    apart = everywhere(view, lambda part: replace(part, indices=5 * part.indices, total=1200))
    assert misaligned_labels(apart) is None
    assert misaligned_labels(view) is not None


def test_some_wrong_labels_are_another_matter():
    def some_wrong(part):
        chance = np.random.default_rng(0)
        return replace(part, y=np.where(chance.random(len(part)) < 0.3, chance.permutation(part.y), part.y))

    assert misaligned_labels(changed(real("digits"), train=some_wrong)) is None
