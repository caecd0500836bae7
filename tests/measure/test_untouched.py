"""What `untouched` promises: afterwards everything is as before, to the byte."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from netdyno.measure.step import one_batch, train_on
from netdyno.measure.untouched import random_state, untouched
from netdyno.targets.workload import Workload


def fresh(optimizer=torch.optim.AdamW):
    data = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    return Workload(
        model=lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1), nn.Flatten(), nn.Linear(144, 2)
        ),
        train=lambda: (data, (data.sum((1, 2, 3)) > 0).long()),
        optimizer=lambda parameters: optimizer(parameters, lr=0.01),
        name="small",
    ).fresh(0)


def bytes_of(subject):
    tensors = [*subject.model.parameters(), *subject.model.buffers()]
    tensors += [
        value
        for parameter in subject.model.parameters()
        for value in subject.optimizer.state.get(parameter, {}).values()
        if isinstance(value, torch.Tensor)
    ]
    return [(tensor.data_ptr(), tensor.stride(), tensor.dtype, tensor.detach().numpy().tobytes()) for tensor in tensors]


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
@pytest.mark.parametrize("steps_before", [0, 2])
def test_training_inside_leaves_no_trace(optimizer, steps_before):
    subject = fresh(optimizer)
    batch = one_batch(subject)
    for _ in range(steps_before):
        train_on(subject, batch)
    before = bytes_of(subject)
    with untouched(subject):
        for _ in range(3):
            train_on(subject, batch)
        assert bytes_of(subject) != before
    assert bytes_of(subject) == before


def test_it_holds_also_when_the_inside_raises():
    subject = fresh()
    before = bytes_of(subject)
    with pytest.raises(ValueError), untouched(subject):  # noqa: PT012
        train_on(subject, one_batch(subject))
        raise ValueError
    assert bytes_of(subject) == before


def test_moved_parameters_come_back_to_their_place():
    subject = fresh()
    before = bytes_of(subject)
    with untouched(subject):
        subject.model.to(memory_format=torch.channels_last)
        for parameter in subject.model.parameters():
            parameter.data = parameter.data.clone()
    assert bytes_of(subject) == before


def test_a_parameter_that_was_replaced_is_the_old_object_again():
    subject = fresh()
    old = subject.model[0].weight
    with untouched(subject):
        subject.model[0].weight = nn.Parameter(torch.zeros_like(old))
    assert subject.model[0].weight is old
    assert list(subject.model[0]._parameters) == ["weight", "bias"]


def test_gradients_come_back():
    subject = fresh()
    subject.model[0].weight.grad = torch.ones_like(subject.model[0].weight)
    grad = subject.model[0].weight.grad
    with untouched(subject):
        train_on(subject, one_batch(subject))
    assert subject.model[0].weight.grad is grad
    assert grad.eq(1).all()
    assert subject.model[0].bias.grad is None


def test_modes_hooks_and_settings_come_back():
    subject = fresh()
    subject.model[1].eval()
    with untouched(subject):
        subject.model.train()
        subject.model[0].register_forward_hook(lambda *_: None)
        subject.optimizer.register_step_post_hook(lambda *_: None)
        subject.optimizer.param_groups[0]["lr"] = 7.0
        subject.optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
        subject.model[4].weight.requires_grad_(False)
        torch.set_num_threads(torch.get_num_threads() + 1)
        torch.set_grad_enabled(False)
        threads = torch.get_num_threads()
    assert subject.model.training
    assert not subject.model[1].training
    assert not subject.model[0]._forward_hooks
    assert not subject.optimizer._optimizer_step_post_hooks
    assert [group["lr"] for group in subject.optimizer.param_groups] == [0.01]
    assert subject.model[4].weight.requires_grad
    assert torch.get_num_threads() == threads - 1
    assert torch.is_grad_enabled()


def states():
    numeric = np.random.get_state()[1]  # noqa: NPY002  it is the global state that is meant
    return random.getstate(), numeric.tolist(), torch.get_rng_state().tolist()


def test_every_random_state_comes_back():
    before = states()
    with random_state():
        random.seed(99)
        np.random.seed(99)  # noqa: NPY002  it is the global state that is meant
        torch.manual_seed(99)
    assert states() == before
