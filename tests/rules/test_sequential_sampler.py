"""Which fixed orders are faults, and how sure."""

import pytest

from netdyno.rules.sequential_sampler import _loader, _use, sequential_sampler


@pytest.mark.parametrize(("labels_vary", "sure"), [(False, True), (True, True), (None, False)])
def test_labels_make_it_sure(labels_vary, sure):
    assert (sequential_sampler(_use(_loader(labels_vary=labels_vary))).confidence >= 0.7) == sure


def test_a_sorted_data_set_is_told_before_one_that_only_repeats():
    finding = sequential_sampler(_use(_loader(labels_vary=True), _loader(labels_vary=False)))
    assert "one class each" in finding.says


def test_an_order_of_which_nobody_knows_whose_it_is_is_a_suspicion():
    assert sequential_sampler(_use(_loader(labels_vary=True, own_order=None))).confidence < 0.7


@pytest.mark.parametrize(
    "fields",
    [
        {"trains": False},
        {"iterable": True},
        {"own_order": True},
        {"sequence": True},
        {"ordered": False},
        {"batches_per_pass": 1},
        {"batches_per_pass": None},
    ],
)
def test_what_is_meant_or_unknown_is_left_alone(fields):
    assert sequential_sampler(_use(_loader(**fields))) is None
