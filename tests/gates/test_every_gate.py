"""What all items of the gate promise, whoever writes the next one."""

import random
import warnings

import numpy as np
import pytest
import torch

from netdyno import plugins
from netdyno.gates._base import Candidate
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.shipping.gate import items, looked

ITEMS = dict(plugins.modules("gates"))
HEADINGS = ("Looks for:", "Matters:", "Try:", "Not this:")


def specimens(kind):
    return [
        pytest.param(name, make, id=f"{name}-{number}")
        for name, module in ITEMS.items()
        for number, make in enumerate(getattr(module, kind, ()))
    ]


def looked_at(name, made):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", module="netdyno")
        return looked(name, made)


def state(model):
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    held = {
        name: (one.data_ptr(), one.requires_grad, one.detach().view(-1).view(torch.uint8).tolist())
        for name, one in tensors.items()
        if not torch.nn.parameter.is_lazy(one)
    }
    modes = [module.training for module in model.modules()]
    hooks = [(len(module._forward_hooks), len(module._forward_pre_hooks)) for module in model.modules()]
    attributes = [
        {name: id(value) for name, value in vars(module).items() if not name.startswith("_")}
        for module in model.modules()
        if not isinstance(module, torch.jit.ScriptModule)
    ]
    # user code draws from the global state
    chance = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # noqa: NPY002
    return held, modes, hooks, attributes, chance, torch.is_grad_enabled()


@pytest.mark.parametrize(("name", "make"), specimens("SICK"))
def test_it_finds_the_sick_says_what_to_do_and_leaves_the_module_as_it_was(name, make):
    made = make()
    before = state(made.model)
    check = looked_at(name, made)
    assert check.ok is False, check
    assert check.name == name
    assert check.fix
    assert check.because or name == "grad-guard"
    assert all(value == value and abs(value) != float("inf") for value in check.because.values())
    assert state(made.model) == before


@pytest.mark.parametrize(("name", "make"), specimens("WELL"))
def test_it_leaves_the_well_alone(name, make):
    made = make()
    before = state(made.model)
    check = looked_at(name, made)
    assert check.ok is not False or check.warning, check
    assert check.says
    assert "could not be looked at" not in check.says
    assert state(made.model) == before


@pytest.mark.parametrize("name", ITEMS)
def test_a_module_in_training_mode_is_in_training_mode_afterwards(name):
    made = candidate(trained(Net()).train())
    before = state(made.model)
    looked(name, made)
    assert state(made.model) == before


@pytest.mark.parametrize("name", ITEMS)
def test_its_file_declares_the_item_of_its_name_with_both_specimens(name):
    module = ITEMS[name]
    assert not isinstance(module, plugins.Broken), module
    assert not isinstance(items()[name], plugins.Broken)
    assert len(module.SICK) >= 1
    assert len(module.WELL) >= 1


@pytest.mark.parametrize("name", ITEMS)
def test_it_explains_itself_under_the_four_headings(name):
    places = [ITEMS[name].__doc__.find(f"\n{heading}") for heading in HEADINGS]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", ITEMS)
def test_a_module_that_answers_nothing_ends_no_walk(name):
    class Broken(Net):
        def forward(self, x):
            raise RuntimeError("no answer today")

    broken = candidate(Broken().eval())
    check = looked(name, Candidate(model=broken.model, example=broken.example, release=broken.release))
    assert check.name == name
    assert check.ok in (None, True, False)
