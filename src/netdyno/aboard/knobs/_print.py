"""What a script's world looks like to the byte, so that two looks can be compared by name."""

import ctypes
import hashlib
import os
from typing import Any

from ._base import randomness


def look(view: Any) -> dict[str, Any]:
    """Everything that a change could leave behind, by name."""
    import torch

    seen = {**_switches(), **_lists(view)}
    random = randomness()
    for name, state in zip(("Python", "NumPy", "PyTorch", "devices"), random, strict=True):
        seen[f"random numbers of {name}"] = _plain(state)
    for number, model in enumerate(view.models):
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            seen[f"model {number}, {name}"] = _tensor(tensor)
            seen[f"model {number}, gradient of {name}"] = None if tensor.grad is None else _tensor(tensor.grad)
        for name, module in model.named_modules():
            seen[f"model {number}, module {name}"] = (id(module), type(module), module.training, sorted(vars(module)))
    for number, optimizer in enumerate(view.optimizers):
        seen[f"optimizer {number}"] = (id(optimizer), type(optimizer), sorted(vars(optimizer)))
        for position, group in enumerate(optimizer.param_groups):
            seen[f"optimizer {number}, group {position}"] = [
                (key, _plain(value)) for key, value in group.items() if key != "params"
            ]
        for position, state in enumerate(optimizer.state.values()):
            for key, value in state.items():
                seen[f"optimizer {number}, state {position}, {key}"] = (
                    _contents(value) if isinstance(value, torch.Tensor) else repr(value)
                )
    for number, loader in enumerate(view.loaders):
        dataset = loader.dataset
        seen[f"loader {number}"] = (id(dataset), type(dataset), loader.num_workers, id(loader.collate_fn))
    return seen


def different(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """The first thing that two looks do not have in common, or None."""
    for name in (*before, *after):
        if before.get(name, _ABSENT) != after.get(name, _ABSENT):
            return name
    return None


_ABSENT = object()


def _switches() -> dict[str, Any]:
    import torch

    from .flush_denormal import flushing
    from .matmul_precision import switches

    try:
        precision: Any = torch.get_float32_matmul_precision()
    except RuntimeError:  # the script uses the newer switches, which are looked at below
        precision = None
    return {
        "threads": torch.get_num_threads(),
        "default type": torch.get_default_dtype(),
        "matmul precision": precision,
        "precision switches": [switch.fp32_precision for switch in switches()],
        "gradients": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": [(torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")],
        "flushing of small numbers": flushing(),
        "environment": dict(os.environ),
        "collating functions": sorted(map(str, torch.utils.data._utils.collate.default_collate_fn_map)),
    }


def _lists(view: Any) -> dict[str, Any]:
    names = ("around_forward", "around_evaluation", "inputs", "loader_arguments", "optimizer_arguments")
    held = {f"view: {name}": [id(each) for each in getattr(view, name)] for name in names}
    return {**held, "view: calls": dict(view.calls)}


def _tensor(tensor: Any) -> tuple[Any, ...]:
    """A tensor's place and its bytes."""
    return (id(tensor), tensor.data_ptr(), tensor.requires_grad, len(tensor._backward_hooks or ()), *_contents(tensor))


def _contents(tensor: Any) -> tuple[Any, ...]:
    """Its form and its bytes, wherever it lies: an optimizer's counter may have moved and come back."""
    form = (tuple(tensor.shape), tensor.stride() if tensor.layout.__str__() == "torch.strided" else None, tensor.dtype)
    return (*form, str(tensor.device), _bytes(tensor))


def _bytes(tensor: Any) -> str:
    import torch

    if tensor.layout != torch.strided:
        return "not dense"
    plain = tensor.detach().cpu().contiguous()
    held = plain.numel() * plain.element_size()
    # Without NumPy, which the script's interpreter may not have, this is the way that does not copy.
    content = (ctypes.c_char * held).from_address(plain.data_ptr()) if held else b""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return _contents(value)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value.tobytes() if hasattr(value, "tobytes") else value
