"""The same start."""

import random

import numpy as np
import torch

from netdyno.aboard import seeds


def test_all_generators_start_alike():
    def drawn():
        seeds.plant(3)
        return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002  the global one is meant

    assert drawn() == drawn()


def test_without_a_seed_nothing_is_touched():
    before = torch.get_rng_state(), random.getstate()
    seeds.plant(None)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()


def test_a_nudge_moves_each_weight_to_the_next_number_and_a_nudge_back_undoes_it():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    before = [weight.detach().clone() for weight in model.parameters()]
    state = torch.get_rng_state()
    assert seeds.nudge(model, 1) == 4
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(new, torch.nextafter(old, torch.tensor(torch.inf)))
    seeds.nudge(model, -1)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_a_nudge_leaves_graphs_and_integer_weights_alone():
    model = torch.nn.Linear(2, 1)
    loss = model(torch.ones(1, 2)).sum()
    version = model.weight._version
    seeds.nudge(model, 2)
    assert model.weight._version == version
    loss.backward()
    assert seeds.nudge(torch.nn.ParameterList([torch.nn.Parameter(torch.tensor([1]), requires_grad=False)]), 1) == 0


def test_half_precision_can_be_nudged():
    model = torch.nn.Linear(2, 1, dtype=torch.bfloat16)
    before = model.weight.detach().clone()
    seeds.nudge(model, 1)
    assert (model.weight > before).all()
