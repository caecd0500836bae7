"""Which evaluations in training mode are faults, and what they are told to be."""

import pytest

from netdyno.rules.training_mode_evaluation import _answer, _model, _use, training_mode_evaluation


def test_it_says_which_layer_makes_the_difference():
    drops = training_mode_evaluation(_use(_model()), _answer())
    norms = training_mode_evaluation(_use(_model(norms=2)), _answer(as_evaluated_again=0.0, by_norms=0.5))
    assert "dropout" in drops.says
    assert "batch normalisation" in norms.says


@pytest.mark.parametrize(("change", "flips", "told"), [(0.09, 0.0, False), (0.11, 0.0, True), (0.01, 0.03, True)])
def test_only_a_difference_that_matters_is_told(change, flips, told):
    found = training_mode_evaluation(_use(_model()), _answer(as_evaluated=change, flips=flips))
    assert (found is not None) == told


def test_without_a_measured_difference_it_is_a_suspicion():
    assert training_mode_evaluation(_use(_model()), None).confidence < 0.7


def test_a_model_that_is_mostly_evaluated_in_evaluation_mode_is_left_alone():
    assert training_mode_evaluation(_use(_model(in_training=10)), _answer()) is None
