"""Classes numbered from 1."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, everywhere, real
from netdyno.audits._base import SURE, Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.shifted_classes import shifted_classes


def from_one(part):
    return replace(part, y=part.y + 1)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_from_0_are_left_alone_and_from_1_are_found(name):
    assert shifted_classes(real(name)) is None
    finding = shifted_classes(everywhere(real(name), from_one))
    assert finding.confidence >= SURE
    assert "class 0 never occurs" in finding.says


def test_a_class_0_with_a_name_may_be_there_on_purpose():
    view = replace(everywhere(real("wine"), from_one), classes=("background", "one", "two", "three"))
    assert shifted_classes(view).confidence < SURE


def test_a_class_that_only_one_split_lacks_is_another_matter():
    view = real("wine")
    train = replace(view.train, y=np.where(view.train.y == 0, 1, view.train.y))
    assert shifted_classes(replace(view, parts={**view.parts, "train": train})) is None


def test_labels_with_other_gaps_are_another_matter():
    assert shifted_classes(everywhere(real("wine"), lambda part: replace(part, y=2 * part.y + 1))) is None


def test_numbers_have_no_classes():
    with pytest.raises(Skip):
        shifted_classes(specimen("table", task="numbers"))
