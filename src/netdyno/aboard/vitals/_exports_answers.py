"""A model's own answers beside those of what was made of it: errors, magnitudes within, and noise layer by layer."""

import copy
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..frames import user_line

LARGEST_HALF = 65504.0
LAYERS = 8
FLOOR = 1e-12


def tensor_of(thing: Any) -> Any:
    """The tensor itself, or the first one in a tuple, list or dict."""
    import torch

    if isinstance(thing, torch.Tensor):
        return thing
    if isinstance(thing, dict):
        thing = tuple(thing.values())
    if isinstance(thing, list | tuple):
        return next((one for one in map(tensor_of, thing) if one is not None), None)
    return None


def spread_of(thing: Any) -> dict[str, float] | None:
    """Ends, mean and deviation of an example's numbers."""
    tensor = tensor_of(thing)
    if tensor is None or not tensor.numel() or tensor.is_complex():
        return None
    values = tensor.detach().reshape(-1)[: 1 << 20].double()
    return {
        "low": float(values.min()),
        "high": float(values.max()),
        "mean": float(values.mean()),
        "std": float(values.std(correction=0)),
    }


@contextmanager
def quietly(model: Any) -> Iterator[None]:
    """The model in evaluation mode, chance as it was before, and all modes put back."""
    import torch

    modes = [(part, part.training) for part in model.modules()]
    state = torch.get_rng_state()
    try:
        for part, _ in modes:
            part.training = False
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        torch.set_rng_state(state)


def answers(source: Any, asked: list[tuple[Any, Any]], how: str, example: dict[str, float] | None) -> dict[str, Any]:
    """How far the answers lie from the model's own, over all that was asked."""
    import torch

    model = copy.deepcopy(source).float() if how == "half" else source
    given = torch.cat([one.reshape(-1)[:65536].float() for one, _ in asked])
    told: dict[str, Any] = {"inputs": len(asked), "real": spread_of(given)}
    if example is not None:
        outside = (given < example["low"]) | (given > example["high"])
        told["outside"] = float(outside.float().mean())
    theirs, own = [], []
    with quietly(model):
        for one, answer in asked:
            reply = tensor_of(model(one.float() if how == "half" else one))
            if reply is None or reply.shape != answer.shape:
                return told
            rows = reply.shape[0] if reply.dim() else 1
            own.append(reply.detach().double().reshape(rows, -1))
            theirs.append(answer.double().reshape(rows, -1))
    return told | _distance(torch.cat(own), torch.cat(theirs))


def _distance(own: Any, theirs: Any) -> dict[str, Any]:
    bad = ~theirs.isfinite().all(1)
    told: dict[str, Any] = {
        "rows": int(own.shape[0]),
        "bad": float(bad.double().mean()),
        "distinct": int(theirs.unique(dim=0).shape[0]),
        "model_distinct": int(own.unique(dim=0).shape[0]),
    }
    # What the answers differ by from row to row is what they are worth; where they don't, their size.
    spread = float((own - own.mean(0)).square().mean().sqrt()) or float(own.square().mean().sqrt())
    good = ~bad
    if spread > FLOOR and bool(good.any()):
        rows = (theirs[good] - own[good]).square().mean(1).sqrt() / spread
        told["error"] = float(rows.square().mean().sqrt())
        told["worst"] = float(rows.max())
    if own.shape[1] > 1:
        told["agreement"] = float((own.argmax(1) == theirs.argmax(1)).double().mean())
    return told


def inner_peak(half: Any, asked: list[tuple[Any, Any]]) -> dict[str, Any]:
    """The largest magnitude within the model in full precision, and the first operation that half precision cannot hold."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: dict[str, Any] = {"peak": 0.0}

    class Peaks(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and result.is_floating_point() and result.numel():
                size = float(result.detach().abs().max())
                if size > LARGEST_HALF and "peak_op" not in found:
                    line = user_line(sys._getframe(1))
                    found["peak_op"] = str(func).removeprefix("aten.").split(".")[0]
                    found["peak_where"] = {"file": line.file, "line": line.line} if line.file else None
                found["peak"] = max(found["peak"], size)
            return result

    model = copy.deepcopy(half).float()
    with quietly(model), Peaks():
        for one, _ in asked[:4]:
            model(one.float())
    found["peak"] = min(found["peak"], sys.float_info.max)
    return found


def layer_ratios(source: Any, made: Any, asked: list[tuple[Any, Any]]) -> list[tuple[str, float]]:
    """Each layer that is of another kind than the model's, fed with the model's own inputs: its signal to noise in dB."""
    model = copy.deepcopy(source)
    others = dict(made.named_modules())
    seen: dict[str, tuple[Any, Any]] = {}
    for name, part in model.named_modules():
        other = others.get(name)
        if name and other is not None and type(other) is not type(part) and not list(part.children()):
            part.register_forward_hook(_keeping(seen, name))
    with quietly(model), quietly(made):
        for one, _ in asked[:4]:
            model(one)
        ratios = []
        for name, (given, answer) in seen.items():
            reply = tensor_of(others[name](given))
            noise = float((reply.double() - answer.double()).square().sum())
            signal = float((answer.double() - answer.double().mean(0)).square().sum())
            ratios.append((name, 10 * math.log10(max(signal, FLOOR) / max(noise, FLOOR))))
    return sorted(ratios, key=lambda one: one[1])[:LAYERS]


def _keeping(seen: dict[str, tuple[Any, Any]], name: str) -> Any:
    def hook(_part: Any, given: Any, answer: Any) -> None:
        if name not in seen and given:
            seen[name] = (given[0].detach(), answer.detach())

    return hook
