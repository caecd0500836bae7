"""Whose gradients cross over, also where models come and go."""

import pytest

pytest.importorskip("torch")

import torch

from netdyno.aboard.vitals.losses import Crossing


def _pair():
    parameter = torch.nn.Parameter(torch.ones(2))
    return torch.optim.SGD([parameter], lr=0.1), parameter


def _pass(crossing, optimizers, *parameters):
    crossing.before(optimizers)
    sum(one.sum() for one in parameters).backward()
    crossing.after()


def test_optimizers_that_are_replaced_in_mid_run_are_forgotten():
    crossing = Crossing()
    (first, one), (second, other) = _pair(), _pair()
    _pass(crossing, [first, second], one, other)
    _pass(crossing, [first], one)
    crossing.step(first, lambda: None)
    assert crossing.crossed == 0


def test_gradients_that_another_loss_left_are_told():
    crossing = Crossing()
    (first, one), (second, other) = _pair(), _pair()
    for _ in range(3):
        _pass(crossing, [first, second], one, other)
        crossing.step(first, lambda: None)
        one.grad = None
        _pass(crossing, [first, second], other)
        crossing.step(second, lambda: None)
        other.grad = None
    assert crossing.crossed == 3
