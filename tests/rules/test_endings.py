"""Which words of an error belong to which cause, and that each error is told once."""

import pytest

from netdyno.records.evidence import Ending, Place
from netdyno.rules import _base, _endings
from netdyno.rules.index_out_of_range import index_out_of_range
from netdyno.rules.mismatched_shapes import mismatched_shapes
from netdyno.rules.unmatched_checkpoint import unmatched_checkpoint


def ended(message: str, error: str = "RuntimeError") -> Ending:
    return Ending(error=error, message=message, where=Place(file="train.py", line=7), updates=2)


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        ("mat1 and mat2 shapes cannot be multiplied (64x128 and 64x10)", "mismatched-shapes"),
        ("The size of tensor a (10) must match the size of tensor b (12) at non-singleton dimension 1", "mismatched-shapes"),
        ("Given groups=1, weight of size [8, 3, 3, 3], expected input[4, 1, 8, 8] to have 3 channels, but got 1 channels instead", "mismatched-shapes"),
        ("shape '[64, 10]' is invalid for input of size 128", "mismatched-shapes"),
        ("mat1 and mat2 must have the same dtype, but got Double and Float", "mismatched-types"),
        ("expected scalar type Long but found Float", "mismatched-types"),
        ('"nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented for \'Float\'', "mismatched-types"),
        ("index out of range in self", "index-out-of-range"),
        ("Target 10 is out of bounds.", "index-out-of-range"),
        ("DataLoader worker (pid 812) is killed by signal: Killed.", "dead-worker"),
        ("name 'modle' is not defined", "failed-script"),
    ],
)  # fmt: skip
def test_an_error_is_told_by_one_rule(message, rule):
    outcomes = _base.diagnose((ended(message),))
    assert [one.rule for one in outcomes if one.state == "found"] == [rule]


def test_all_words_belong_to_a_rule():
    assert set(_endings.WORDS) <= {each.id for each in _base.rules()}


def test_the_width_that_a_layer_needs_is_in_the_fix():
    finding = mismatched_shapes(ended("mat1 and mat2 shapes cannot be multiplied (64x128 and 100x10)"))
    assert "nn.Linear(128" in finding.fix


def test_a_label_beyond_the_outputs_says_how_many_outputs_it_takes():
    assert "at least 11 outputs" in index_out_of_range(ended("Target 10 is out of bounds.", "IndexError")).fix


def test_a_wrapper_s_prefix_in_a_checkpoint_is_named():
    message = 'Error(s) in loading state_dict for Net:\n\tMissing key(s) in state_dict: "a", "b". \n\tUnexpected key(s) in state_dict: "module.a". '
    finding = unmatched_checkpoint(ended(message))
    assert "2 names" in finding.says
    assert "module." in finding.fix
