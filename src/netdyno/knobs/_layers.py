"""What knobs of architecture share: looking at a fresh model, swapping its layers, and the fan of every kind of layer."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from netdyno.knobs._base import Setup
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch, mapped

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Weighted = nn.Linear | Convolution | Transposed
BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d
Dropout = nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.AlphaDropout
Norm = BatchNorm | nn.GroupNorm | nn.LayerNorm | nn.InstanceNorm1d | nn.InstanceNorm2d | nn.InstanceNorm3d
Activation = nn.ReLU | nn.ReLU6 | nn.LeakyReLU | nn.ELU | nn.GELU | nn.SiLU | nn.Mish | nn.Tanh | nn.Hardswish

# What a look at a layer's part in the whole needs: a few samples, in which a batch norm has something to average.
LOOKED_AT = 8


def fresh(setup: Setup) -> nn.Module:
    """A model to look at. The global generators stay where they were: having looked must not be felt."""
    with kept_randomness():
        return setup.model()


def a_batch(setup: Setup, samples: int = LOOKED_AT) -> Batch:
    """The first samples of the training data as a batch, without augmentation, on the workload's device."""
    train, _ = setup.workload.datasets()
    with kept_randomness():
        if isinstance(train, IterableDataset):
            chosen = list(itertools.islice(iter(train), samples))
        else:
            chosen = [train[index] for index in range(min(samples, len(train)))]  # type: ignore[arg-type]
        batch = setup.workload.collate(chosen)
    return mapped(batch, lambda tensor: tensor.to(setup.workload.device))


def output_of(setup: Setup, model: nn.Module | None = None) -> Any:
    """What the model answers to a few samples, in evaluation; the generators and a given model stay as they are."""
    batch = a_batch(setup)
    with kept_randomness(), torch.no_grad():
        looked = copy.deepcopy(model) if model is not None else setup.model()
        return setup.forward(looked.to(setup.workload.device).eval(), batch)


def broken_by(setup: Setup, change: Callable[[nn.Module], nn.Module]) -> str | None:
    """Why the changed model cannot answer in training or gives another shape of answer, or None when it can."""
    try:
        before, batch = output_of(setup), a_batch(setup)
        with kept_randomness():
            model = change(setup.model()).to(setup.workload.device).train()
            with torch.no_grad():
                after = setup.forward(model, batch)
    except Exception as error:
        return f"the changed model does not run: {type(error).__name__}: {str(error).strip().splitlines()[0:1]}"
    if isinstance(before, Tensor) and isinstance(after, Tensor) and before.shape != after.shape:
        return f"the changed model answers {tuple(after.shape)} and not {tuple(before.shape)}"
    return None


def with_model(setup: Setup, change: Callable[[nn.Module], nn.Module]) -> Setup:
    """A setup whose fresh model is changed before anything else sees it."""
    make = setup.model
    return replace(setup, model=lambda: change(make()))


def ran(setup: Setup, kinds: Any) -> list[tuple[str, nn.Module, tuple[int, ...], tuple[int, ...]]]:
    """The modules of these kinds in the order in which they first run: name, module, shapes of input and output.

    The modules belong to a model of its own, built for this look.
    """
    model, seen = fresh(setup), {}
    names = {module: name for name, module in model.named_modules()}

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        if module not in seen and inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            seen[module] = (names[module], module, tuple(inputs[0].shape), tuple(output.shape))

    hooks = [module.register_forward_hook(note) for module in model.modules() if isinstance(module, kinds)]
    try:
        with kept_randomness(), torch.no_grad():
            setup.forward(model.to(setup.workload.device).eval(), a_batch(setup))
    finally:
        for hook in hooks:
            hook.remove()
    return list(seen.values())


def swapped(model: nn.Module, kinds: Any, make: Callable[[Any], nn.Module]) -> nn.Module:
    """The model with every module of these kinds replaced, in place; a module used twice is replaced by one."""
    if isinstance(model, kinds):
        return make(model)
    made: dict[nn.Module, nn.Module] = {}
    for parent in list(model.modules()):
        # `named_children` names a shared child once; every place it stands in must be found.
        for name, child in list(parent._modules.items()):
            if isinstance(child, kinds):
                if child not in made:
                    made[child] = make(child)
                parent._modules[name] = made[child]
    return model


def put(model: nn.Module, name: str, module: nn.Module) -> nn.Module:
    """The model with the module of that dotted name replaced."""
    if not name:
        return module
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
    return model


def has(setup: Setup, kinds: Any) -> bool:
    """True when a fresh model holds a module of these kinds."""
    return any(isinstance(module, kinds) for module in fresh(setup).modules())


def weighted(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Every linear and convolutional layer with its name; of layers that share one weight the first."""
    seen = set()
    for name, module in model.named_modules():
        if isinstance(module, Weighted) and id(module.weight) not in seen and not nn.parameter.is_lazy(module.weight):
            seen.add(id(module.weight))
            yield name, module


def fan_in(module: Any) -> float:
    """How many inputs one output of a layer adds up: of a strided transposed convolution, on average.

    A transposed convolution spreads each input over its kernel, so with stride s only one weight in s^d meets a given output.
    torch.nn.init reads the fan of its weight, whose two first dimensions lie the other way round, off the output
    channels: 576 instead of 144 for 64 channels to 64, kernel 3 x 3, stride 2.

    >>> fan_in(nn.ConvTranspose2d(64, 64, 3, stride=2))
    144.0
    """
    if isinstance(module, nn.Linear):
        return float(module.in_features)
    area = 1.0
    for kernel, stride in zip(module.kernel_size, module.stride, strict=True):
        area *= kernel / stride if isinstance(module, Transposed) else kernel
    return module.in_channels // module.groups * area


def fan_out(module: Any) -> float:
    """How many outputs one input of a layer reaches: the mirror of `fan_in`."""
    if isinstance(module, nn.Linear):
        return float(module.out_features)
    area = 1.0
    for kernel, stride in zip(module.kernel_size, module.stride, strict=True):
        area *= kernel if isinstance(module, Transposed) else kernel / stride
    return module.out_channels // module.groups * area
