"""Values that are none, in tables of all kinds of tails."""

import numpy as np
import pytest
from sklearn import datasets

from netdyno.audits._specimens import specimen
from netdyno.audits.outlying_values import outlying_values


def viewed(rows):
    half = len(rows) // 2
    return specimen(
        "table",
        columns=(),
        train={"x": rows[:half], "y": np.arange(half) % 3, "indices": np.arange(half)},
        val={"x": rows[half:], "y": np.arange(len(rows) - half) % 3, "indices": np.arange(len(rows) - half)},
    )


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes", "digits"])
def test_real_columns_are_left_alone_and_a_code_for_missing_is_named(name):
    rows = getattr(datasets, f"load_{name}")().data
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    assert outlying_values(viewed(rows)) is None
    planted = rows.copy()
    planted[:5, 1] = -999.0
    finding = outlying_values(viewed(planted))
    assert "feature 1" in finding.says
    assert {each.index for each in finding.exhibits} <= set(range(5))


def test_heavy_tails_are_rarely_taken_for_codes():
    """Two hundred columns of the heaviest tail: fewer than one in fifty may be told."""
    alarms = [
        outlying_values(viewed(np.random.default_rng(seed).standard_cauchy((600, 1)))) is not None
        for seed in range(200)
    ]
    assert sum(alarms) <= 4


def test_counts_and_rare_ones_are_left_alone():
    chance = np.random.default_rng(0)
    assert outlying_values(viewed(chance.poisson(0.3, (400, 6)).astype(float))) is None
    assert outlying_values(viewed((chance.random((400, 6)) < 0.02).astype(float))) is None


def test_another_unit_in_a_few_rows_is_named():
    rows = np.random.default_rng(0).normal(170.0, 8.0, (400, 3))
    rows[:6, 1] /= 100.0  # metres among centimetres
    rows[:6, 2] *= 1000.0
    assert "feature 2" in outlying_values(viewed(rows)).says


@pytest.mark.parametrize("seed", range(5))
def test_words_that_come_up_to_three_times_are_left_alone(seed):
    chance = np.random.default_rng(seed)
    counts = (chance.random((600, 80)) < 0.03) * chance.integers(1, 4, (600, 80))
    assert outlying_values(viewed(counts.astype(float))) is None
    counts[:3, 5] = -999
    assert "-999" in outlying_values(viewed(counts.astype(float))).says
