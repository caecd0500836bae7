"""One scale for all splits."""

from dataclasses import replace

import numpy as np
import pytest

from audits._real import CLASSES, changed, real
from netdyno.audits.split_scaling import split_scaling


def standardised(part, by):
    deviation = by.x.std(0)
    return replace(part, x=(part.x - by.x.mean(0)) / np.where(deviation > 0, deviation, 1))


@pytest.mark.parametrize("name", [*CLASSES, "diabetes"])
@pytest.mark.parametrize("seed", range(5))
def test_real_data_split_by_chance_are_left_alone_raw_and_standardised_alike(name, seed):
    view = real(name, seed=seed)
    assert split_scaling(view) is None
    both = changed(view, **{side: lambda part: standardised(part, view.train) for side in view.parts})
    assert split_scaling(both) is None


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("seed", range(5))
def test_training_scaled_alone_is_found(name, seed):
    finding = split_scaling(changed(real(name, seed=seed), train=lambda part: standardised(part, part)))
    assert finding is not None


def test_features_that_drift_each_its_own_way_are_another_sickness():
    own = np.exp(np.random.default_rng(0).normal(0.6, 0.5, 30)).astype(np.float32)
    assert split_scaling(changed(real("breast_cancer"), val=lambda part: replace(part, x=part.x * own))) is None
