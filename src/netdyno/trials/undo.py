"""Proof that a change can be taken back: everything is afterwards as it was, to the byte."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from netdyno.interventions._base import applied
from netdyno.records.trial import Change
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload


class _PlantedError(Exception):
    """Raised inside the change, to see that it is taken back then too."""


def not_undone(workload: Workload, change: Change, *, against: tuple[Change, ...], seed: int) -> str | None:
    """What is different after `change` was applied on top of `against` and taken back, once in peace and once
    by an exception; None when nothing is."""
    with applied(against, workload.fresh(seed)) as subject:
        before = dict(fingerprint(subject))
        with applied((change,), subject):
            pass
        with suppress(_PlantedError), applied((change,), subject):
            raise _PlantedError
        after = dict(fingerprint(subject))
    different = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return ", ".join(sorted(different)) or None


def fingerprint(subject: Subject) -> Iterator[tuple[str, object]]:
    """Every tensor's address, layout, type and bytes; modes, optimizer settings, random state, global switches."""
    for name, tensor in (*subject.model.named_parameters(), *subject.model.named_buffers()):
        yield name, _seen(tensor)
    for name, module in subject.model.named_modules():
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks)
        # A forward that was put on the instance stands in its __dict__.
        yield f"module {name}", (type(module), module.training, hooks, "forward" in vars(module))
    for number, group in enumerate(subject.optimizer.param_groups):
        yield f"optimizer group {number}", {key: repr(value) for key, value in group.items() if key != "params"}
        yield f"parameters of group {number}", tuple(map(id, group["params"]))
    yield (
        "optimizer state",
        {
            (id(parameter), key): _seen(value) if isinstance(value, Tensor) else repr(value)
            for parameter, values in subject.optimizer.state.items()
            for key, value in values.items()
        },
    )
    yield "random state", _hash(repr((random.getstate(), np.random.get_state())).encode())  # noqa: NPY002
    yield "random state of torch", _hash(torch.get_rng_state().numpy().tobytes())
    if torch.cuda.is_initialized():
        yield "random state of CUDA", [_hash(each.numpy().tobytes()) for each in torch.cuda.get_rng_state_all()]
    yield "threads", torch.get_num_threads()
    yield "default type", torch.get_default_dtype()
    yield "matrix precision", torch.get_float32_matmul_precision()
    yield "gradients", torch.is_grad_enabled()
    yield "autocast", (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


def _seen(tensor: Tensor) -> tuple[object, ...]:
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return tensor.data_ptr(), tensor.dtype, tuple(tensor.stride()), tensor.requires_grad, _hash(content)


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
