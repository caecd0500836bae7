"""Puts a subject back as it was: bytes, random state, modes, hooks and switches."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from netdyno.targets.subject import Subject

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks",
    "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called",
)  # fmt: skip


@contextlib.contextmanager
def untouched(subject: Subject) -> Iterator[Subject]:
    """Whatever happens inside, afterwards these are as before, to the byte and the same objects:

    parameters, buffers, gradients, optimizer state and settings, train/eval modes, hooks, every global random state,
    thread count, default dtype and matmul precision. Plain Python attributes of the user's modules are not covered.
    """
    with untouched_module(subject.model), _optimizer(subject.optimizer):
        yield subject


@contextlib.contextmanager
def untouched_module(model: nn.Module) -> Iterator[nn.Module]:
    """The same for a module alone: parameters, buffers, gradients, modes, hooks, random state and switches."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(random_state())
        stack.enter_context(_switches())
        for module in model.modules():
            stack.enter_context(_script(module) if isinstance(module, torch.jit.ScriptModule) else _module(module))
        yield model


@contextlib.contextmanager
def random_state() -> Iterator[None]:
    """Every global random state is afterwards as before."""
    python, numeric, tensors = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numeric)  # noqa: NPY002  user code draws from the global state
        torch.set_rng_state(tensors)
        if devices:
            torch.cuda.set_rng_state_all(devices)


@contextlib.contextmanager
def _switches() -> Iterator[None]:
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    precision, gradients = torch.get_float32_matmul_precision(), torch.is_grad_enabled()
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        torch.set_grad_enabled(gradients)


@contextlib.contextmanager
def _module(module: nn.Module) -> Iterator[None]:
    parameters, buffers = dict(module._parameters), dict(module._buffers)
    there = [
        tensor for tensor in (*parameters.values(), *buffers.values()) if tensor is not None and not is_lazy(tensor)
    ]
    kept = [_Kept(tensor) for tensor in there]
    hooks = {name: getattr(module, name).copy() for name in HOOKS if hasattr(module, name)}
    training = module.training
    try:
        yield
    finally:
        _refill(module._parameters, parameters)
        _refill(module._buffers, buffers)
        for tensor in kept:
            tensor.restore()
        for name, before in hooks.items():
            _refill(getattr(module, name), before)
        module.training = training


@contextlib.contextmanager
def _script(module: nn.Module) -> Iterator[None]:
    """A scripted or traced module: its tensors and its mode; it has no registries of its own."""
    kept = [_Kept(tensor) for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False))]
    training = module.training
    try:
        yield
    finally:
        for tensor in kept:
            tensor.restore()
        if module.training != training:
            module.training = training


@contextlib.contextmanager
def _optimizer(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    state = {parameter: dict(values) for parameter, values in optimizer.state.items()}
    groups = [(group, dict(group)) for group in optimizer.param_groups]
    kept = [
        _Kept(value)
        for values in (*state.values(), *(was for _, was in groups))
        for value in values.values()
        if _is_tensor(value)
    ]
    attributes = dict(vars(optimizer))
    hooks = [(value, value.copy()) for name, value in attributes.items() if name.endswith("_hooks")]
    try:
        yield
    finally:
        optimizer.state.clear()
        for parameter, values in state.items():
            optimizer.state[parameter] = values
        optimizer.param_groups[:] = [group for group, _ in groups]
        for there, before in (*groups, *hooks):
            _refill(there, before)
        for tensor in kept:
            tensor.restore()
        for name in set(vars(optimizer)) - set(attributes):
            delattr(optimizer, name)
        for name, value in attributes.items():
            setattr(optimizer, name, value)


class _Kept:
    """A tensor, with what it held and where."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.data = tensor.data
        self.copy = tensor.detach().clone()
        self.grad = tensor.grad if tensor.is_leaf else None
        self.grad_copy = None if self.grad is None else self.grad.detach().clone()
        self.requires_grad = tensor.requires_grad

    def restore(self) -> None:
        with torch.no_grad():
            self.data.copy_(self.copy)
            self.tensor.data = self.data
            if self.tensor.is_leaf:
                self.tensor.requires_grad_(self.requires_grad)
                self.tensor.grad = self.grad
            if self.grad is not None and self.grad_copy is not None:
                self.grad.copy_(self.grad_copy)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _refill(there: Any, before: dict[Any, Any]) -> None:
    """Give a dictionary its old entries in their old order; leave it alone when they are the same objects."""
    if list(there) != list(before) or any(there[key] is not before[key] for key in before):
        there.clear()
        there.update(before)
