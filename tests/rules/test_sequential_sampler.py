"""Which fixed orders are faults, and how sure."""

import pytest

from netdyno.rules.sequential_sampler import _loader, _use, sequential_sampler


@pytest.mark.parametrize(("labels_vary", "sure"), [(False, True), (True, True), (None, False)])
def test_labels_make_it_sure(labels_vary, sure):
    assert (sequential_sampler(_use(_loader(labels_vary=labels_vary))).confidence >= 0.7) == sure


def test_a_sorted_data_set_is_told_before_one_that_only_repeats():
    finding = sequential_sampler(_use(_loader(labels_vary=True), _loader(labels_vary=False)))
    assert "one class each" in finding.says


def test_a_last_smaller_batch_counts():
    assert "3 batches to a pass" in sequential_sampler(_use(_loader(length=65, batch_size=32))).says


@pytest.mark.parametrize(
    "fields",
    [
        {"trains": False},
        {"iterable": True, "length": None},
        {"own_order": True},
        {"sequence": True},
        {"ordered": False},
        {"length": 64},
        {"length": None},
        {"batch_size": 0},
    ],
)
def test_what_is_meant_or_unknown_is_left_alone(fields):
    assert sequential_sampler(_use(_loader(**fields))) is None
