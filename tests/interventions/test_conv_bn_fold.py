"""Batch norm folded into the convolution before it: the same answers, one layer less, and never in training."""

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, WORDS, Images, stepped, trained
from netdyno.errors import NetdynoError
from netdyno.interventions.conv_bn_fold import ConvBnFold
from netdyno.measure.step import evaluating
from netdyno.targets import folding
from netdyno.targets.folding import fold, pairs

IMAGE = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def settled(model):
    """Running statistics that are not those of a fresh model."""
    with torch.no_grad():
        for _ in range(3):
            model(2 * torch.randn(16, 1, 8, 8) + 1)
    return model


def norms(model):
    return sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())


def test_answers_are_the_same_and_no_batch_norm_is_left():
    model = settled(Images())
    folded = fold(model, IMAGE)
    assert (norms(model), norms(folded)) == (4, 0)
    assert torch.allclose(model.eval()(IMAGE), folded(IMAGE), rtol=1e-5, atol=1e-5)


def test_the_model_that_was_folded_is_not_touched():
    model = settled(Images())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold(model)
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.BatchNorm2d(2)),
        nn.Sequential(nn.BatchNorm2d(1), nn.Conv2d(1, 2, 3)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False)),
    ],
    ids=["something between", "the other way round", "no running statistics"],
)
def test_what_cannot_be_folded_is_an_error_in_three_lines(model):
    assert pairs(model) == []
    with pytest.raises(NetdynoError, match="cannot fold"):
        fold(model)


def test_a_convolution_whose_output_is_used_twice_is_left_alone():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3)
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x):
            x = self.conv(x)
            return x + self.norm(x)

    assert pairs(Twice()) == []


def test_a_convolution_that_runs_twice_is_left_alone():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1)
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x):
            return self.conv(self.norm(self.conv(x)))

    assert pairs(Again()) == []


def test_training_steps_are_refused_in_words():
    assert "only at inference" in ConvBnFold().refuses(IMAGES.fresh(0))
    assert "no batch norm" in ConvBnFold().refuses(WORDS.fresh(0))


def test_applied_it_serves_evaluation_with_fresh_weights_and_leaves_training_alone():
    subject, other = trained(IMAGES), trained(IMAGES)
    with ConvBnFold().applied(subject) as inside:
        for _ in range(2):
            with evaluating(inside):
                answer = inside.callee(IMAGE)
                assert torch.allclose(answer, subject.model(IMAGE), rtol=1e-5, atol=1e-5)
            assert stepped(inside, 2, model=subject.model) == stepped(other, 2)


def test_folding_that_changes_answers_is_an_error(monkeypatch):
    model = settled(Images())
    monkeypatch.setattr(folding, "fuse_conv_bn_eval", lambda convolution, norm: convolution)
    with pytest.raises(NetdynoError, match="changed the answers"):
        fold(model, IMAGE)
