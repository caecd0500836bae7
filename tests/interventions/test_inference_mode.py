"""Inference mode reaches evaluation and nothing else."""

import torch

from interventions.specimens import EVERYTHING, WORDS, stepped
from netdyno.interventions.inference_mode import InferenceMode
from netdyno.measure.step import evaluating, one_batch


def test_evaluation_runs_in_inference_mode_with_the_same_answers():
    subject = WORDS.fresh(0)
    tokens, _ = one_batch(subject)
    with evaluating(subject):
        plain = subject.callee(tokens)
    with InferenceMode().applied(subject) as inside, evaluating(inside):
        assert torch.is_inference_mode_enabled()
        answer = inside.callee(tokens)
    assert torch.equal(plain, answer)
    assert not torch.is_inference_mode_enabled()


def test_training_steps_are_untouched():
    with InferenceMode().applied(WORDS.fresh(0)) as inside:
        assert stepped(inside, 2) == stepped(WORDS.fresh(0), 2)


def test_no_gain_is_promised_for_a_training_step_and_twice_is_refused():
    assert InferenceMode().predicts(EVERYTHING) is None
    with InferenceMode().applied(WORDS.fresh(0)) as inside:
        assert "already" in InferenceMode().refuses(inside)
