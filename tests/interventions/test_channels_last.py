"""Channels-last: weights, gradients and optimizer state move together, and go back where they were."""

import pytest
import torch
from torch import nn

from interventions.specimens import IMAGES, PLAIN_IMAGES, STREAM, WORDS, facts, stepped, timeline, trained
from netdyno.interventions.channels_last import ChannelsLast
from netdyno.records.evidence import Layer, LayerTable
from netdyno.targets.workload import Workload

LAST = torch.channels_last


class Both(nn.Module):
    """A 2-D and a 3-D convolution side by side."""

    def __init__(self):
        super().__init__()
        self.flat = nn.Conv2d(3, 4, 3)
        self.deep = nn.Conv3d(1, 2, 3)

    def forward(self, x):
        return self.flat(x).mean((2, 3)), self.deep(x[:, None]).mean((2, 3, 4))


def workload(model, *shape):
    return Workload(
        name="own", model=model, train=lambda: (torch.randn(32, *shape), torch.arange(32) % 2), batch_size=8
    )


def layer_table(**seconds):
    layers = tuple(
        Layer(module=kind, kind=kind, flops=1.0, bytes=1.0, seconds=spent, intensity=1.0)
        for kind, spent in seconds.items()
    )
    return LayerTable(
        layers=layers,
        forward_flops=1.0,
        step_flops=3.0,
        step_bytes=1.0,
        dtype="float32",
        ridge=1.0,
        compute_seconds=1.0,
    )


def test_inside_weights_and_batches_are_channels_last():
    subject = IMAGES.fresh(0)
    with ChannelsLast().applied(subject) as inside:
        assert subject.model.blocks[0].conv.weight.is_contiguous(memory_format=LAST)
        (image,) = inside.placed([torch.randn(2, 3, 4, 4)])
        assert image.is_contiguous(memory_format=LAST)


def test_a_3d_convolution_beside_a_2d_one_is_left_alone():
    subject = workload(Both, 3, 8, 8).fresh(0)
    with ChannelsLast().applied(subject):
        assert subject.model.flat.weight.is_contiguous(memory_format=LAST)
        assert subject.model.deep.weight.is_contiguous()


@pytest.mark.parametrize("fused", [False, True])
def test_what_an_optimizer_remembered_before_still_belongs_to_the_right_weights(fused):
    """Fused kernels walk through memory: state left in the old order would be mixed up without a word."""

    def adam(parameters):
        return torch.optim.Adam(parameters, lr=0.01, fused=fused)

    def fresh():
        return workload(lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2)), 3, 8, 8).fresh(0)

    results = []
    for changed in (False, True):
        subject = fresh()
        object.__setattr__(subject, "optimizer", adam(subject.model.parameters()))
        stepped(subject, 3)
        if changed:
            with ChannelsLast().applied(subject) as inside:
                stepped(inside, 3, model=subject.model)
        else:
            stepped(subject, 3)
        stepped(subject, 3)
        results.append(subject.model[0].weight.detach().clone())
    assert torch.allclose(*results, rtol=1e-3, atol=1e-4)


def test_state_that_is_made_inside_is_afterwards_in_the_usual_order():
    subject = IMAGES.fresh(0)
    with ChannelsLast().applied(subject) as inside:
        stepped(inside, 1)
        weight = subject.model.blocks[0].conv.weight
        assert subject.optimizer.state[weight]["exp_avg"].is_contiguous(memory_format=LAST)
    assert subject.optimizer.state[weight]["exp_avg"].is_contiguous()
    assert weight.is_contiguous()


def test_gradients_that_are_kept_between_steps_follow_their_weights():
    subject = trained(PLAIN_IMAGES)
    weight = subject.model.blocks[0].conv.weight
    weight.grad = torch.arange(weight.numel(), dtype=torch.float32).reshape(weight.shape)
    gradient, content = weight.grad, weight.grad.clone()
    with ChannelsLast().applied(subject):
        assert weight.grad.is_contiguous(memory_format=LAST)
        assert torch.equal(weight.grad, content)
    assert weight.grad is gradient
    assert torch.equal(gradient, content)


def test_it_refuses_in_the_words_of_the_model():
    refuses = ChannelsLast().refuses
    assert refuses(WORDS.fresh(0)) == "the model has no 2-D convolution"
    deep = workload(lambda: nn.Sequential(nn.Conv3d(1, 2, 3), nn.Flatten()), 1, 4, 4, 4)
    assert "only Conv3d" in refuses(deep.fresh(0))
    rows = workload(lambda: nn.Sequential(nn.Unflatten(1, (2, 2, 4)), nn.Conv2d(2, 3, 2), nn.Flatten()), 16)
    assert "no tensor of a batch has 4 dimensions" in refuses(rows.fresh(0))
    already = IMAGES.fresh(0)
    already.model.to(memory_format=LAST)
    assert "already" in refuses(already)
    assert refuses(STREAM.fresh(0)) is None


def test_it_predicts_at_most_a_third_of_what_2d_convolutions_take():
    spent = timeline(data=50, forward=20, backward=30)
    halves = layer_table(Conv2d=0.5, Linear=0.5)
    assert ChannelsLast().predicts(facts(spent, halves)).high == pytest.approx(0.33 * 0.25)
    assert ChannelsLast().predicts(facts(spent, layer_table(Conv2d=0.01, Linear=0.99))) is None
    assert ChannelsLast().predicts({}) is None
