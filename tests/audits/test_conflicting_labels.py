"""Equal samples with different labels, by nature and by mistake."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import datasets

from netdyno.audits._specimens import specimen
from netdyno.audits.conflicting_labels import conflicting_labels


def viewed(rows, y):
    view = specimen("table", columns=(), train={"x": rows, "y": y, "indices": np.arange(len(y))})
    return replace(view, parts={"train": view.train})


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize("seed", range(3))
def test_clean_sets_are_left_alone_and_contradictions_in_a_twentieth_are_found(name, seed):
    held = getattr(datasets, f"load_{name}")(as_frame=False)
    chance = np.random.default_rng(seed)
    rows, y = held.data.copy(), held.target.copy()
    assert conflicting_labels(viewed(rows, y)) is None
    many = max(5, len(y) // 20)
    order = chance.permutation(len(y))
    to, of = order[:many], order[many : 2 * many]
    rows[to], y[to] = rows[of], (y[of] + 1) % len(np.unique(y))
    finding = conflicting_labels(viewed(rows, y))
    assert finding is not None
    assert finding.because["conflicts"] >= many


@pytest.mark.parametrize("seed", range(20))
def test_an_outcome_that_is_chance_is_no_contradiction(seed):
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, 3, (500, 4)).astype(float)
    y = (chance.random(500) < 0.2 + 0.2 * rows[:, 0]).astype(int)
    assert conflicting_labels(viewed(rows, y)) is None
