"""Batch norms that stand right behind convolutions, and a copy of a model in which they are folded into them."""

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from netdyno.errors import NetdynoError
from netdyno.targets.traced import Unusable, traced

NORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}
ALLOWED = 1e-4  # relative to the largest answer; rounding gives 1e-6


class Pair(NamedTuple):
    """A convolution and the batch norm behind it, by their paths."""

    convolution: str
    norm: str


def fold(model: nn.Module, *inputs: Tensor) -> nn.Module:
    """A copy of `model`, in evaluation mode, with every batch norm that can be folded into its convolution folded.

    With `inputs` the answers of both are compared. Raises NetdynoError when nothing can be folded, or when the
    answers differ by more than rounding explains.
    """
    found = pairs(model)
    if not found:
        raise NetdynoError(
            f"cannot fold batch norms of `{type(model).__name__}`",
            because="none stands right behind a convolution whose output nothing else uses",
            hint="fold before the model is compiled or scripted; code that looks into its tensors hides the order of layers",
        )
    folded = copy.deepcopy(model).eval()
    for convolution, norm in found:
        fused = fuse_conv_bn_eval(_part(folded, convolution), _part(folded, norm))
        _put(folded, convolution, fused)
        _put(folded, norm, nn.Identity().eval())
    if inputs:
        _check(model, folded, inputs)
    return folded


def pairs(model: nn.Module) -> list[Pair]:
    """Convolutions whose only user is the batch norm behind them, wherever a forward can be looked into."""
    found = []
    for path, module in model.named_modules():
        if any(isinstance(part, tuple(NORMS.values())) for part in module.children()):
            prefix = f"{path}." if path else ""
            found += [Pair(prefix + pair.convolution, prefix + pair.norm) for pair in _pairs_within(module)]
    return [pair for pair in found if _foldable(_part(model, pair.convolution), _part(model, pair.norm), model)]


def _pairs_within(module: nn.Module) -> list[Pair]:
    try:
        graph = traced(module)
    except Unusable:
        return []
    calls = [node for node in graph.graph.nodes if node.op == "call_module"]
    often = {str(node.target): sum(other.target == node.target for other in calls) for node in calls}
    found = []
    for node in calls:
        before = node.args[0] if node.args else None
        if getattr(before, "op", None) != "call_module" or len(before.users) != 1:  # type: ignore[union-attr]
            continue
        pair = Pair(str(before.target), str(node.target))  # type: ignore[union-attr]
        if often[pair.convolution] == often[pair.norm] == 1:
            found.append(pair)
    return found


def _foldable(convolution: nn.Module, norm: nn.Module, model: nn.Module) -> bool:
    wanted = NORMS.get(type(convolution))
    if wanted is None or type(norm) is not wanted or getattr(norm, "running_var", None) is None:
        return False
    hooked = any(each._forward_hooks or each._forward_pre_hooks for each in (convolution, norm))
    owners = sum(part in (convolution, norm) for module in model.modules() for part in module.children())
    return not hooked and owners == 2  # a module with two owners is called from two places


def _part(model: nn.Module, path: str) -> Any:
    return model.get_submodule(path)


def _put(model: nn.Module, path: str, part: nn.Module) -> None:
    owner, _, name = path.rpartition(".")
    model.get_submodule(owner)._modules[name] = part


def _check(model: nn.Module, folded: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    plain = copy.deepcopy(model).eval()
    with torch.no_grad():
        before, after = plain(*inputs), folded(*inputs)
    apart = float((before - after).abs().max() / before.abs().max().clamp_min(1e-12))
    if not apart <= ALLOWED:
        raise NetdynoError(
            f"folding changed the answers of `{type(model).__name__}`",
            because=f"they lie {apart:.1e} of the largest answer apart; rounding explains {ALLOWED:.0e}",
            hint="compare layer by layer; a variance near zero in a batch norm makes its factor huge",
        )
