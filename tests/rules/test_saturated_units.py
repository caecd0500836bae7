"""Which activations are called saturated."""

import pytest

from netdyno.records.scores import Scores
from netdyno.rules.saturated_units import _traces, saturated_units


@pytest.mark.parametrize(
    ("name", "mean", "std", "told"),
    [
        ("tanh", 0.0, 0.99, True),
        ("tanh", 0.0, 0.9, False),
        ("tanh", 0.99, 0.05, False),
        ("sigmoid", 0.5, 0.499, True),
        ("sigmoid", 0.5, 0.2, False),
        ("relu", 0.0, 0.99, False),
    ],
)
def test_values_at_both_ends_are_told(name, mean, std, told):
    found = saturated_units(_traces(name, (mean, std), (mean, std)), None)
    assert (found is not None) == told


def test_a_model_that_learns_all_the_same_is_only_suspected():
    traces = _traces("tanh", (0.0, 0.99), (0.0, 0.99))
    learns = saturated_units(traces, Scores(measure="accuracy", train_first=0.2, train_last=0.99))
    assert learns is not None
    assert learns.confidence < 0.7
