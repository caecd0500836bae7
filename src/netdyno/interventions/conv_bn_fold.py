"""Fold each batch norm into the convolution before it: for a model that has been trained.

Helps:      inference: one layer less per convolution, with the same answers. `fold(model)` gives the folded copy.
Costs:      nothing, once training is over.
Parity:     two products are multiplied into one beforehand: 1e-6 apart.
Undo:       the model is not touched; the folded copy serves evaluation only, and is made anew when weights have moved.
Not for training: there batch norm needs the statistics of each batch, so in trials of training steps it is refused.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from netdyno.errors import NetdynoError
from netdyno.interventions._base import Facts, Intervention
from netdyno.interventions._traced import Unusable, traced
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

NORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}
ALLOWED = 1e-4  # relative to the largest answer; rounding gives 1e-6


@dataclass(frozen=True, slots=True)
class ConvBnFold:
    layers: ClassVar[tuple[str, ...]] = ("compute", "deployment")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 12
    effort: ClassVar[float] = 3.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if not pairs(subject.model):
            return "no batch norm of the model stands right behind a convolution"
        return "it helps only at inference; in training steps batch norm needs the statistics of each batch"

    def predicts(self, facts: Facts) -> Prediction | None:
        return None  # a trial times training steps, and in those nothing is folded

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return ()

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        if subject.called is not None or not pairs(subject.model):
            yield subject
        else:
            yield replace(subject, called=_FoldedInEvaluation(subject.model))

    def code(self) -> str:
        return "from netdyno.interventions.conv_bn_fold import fold\nserved = fold(model.eval())"


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


class _FoldedInEvaluation:
    """The model itself in training; in evaluation its folded copy, made anew when a weight or statistic has moved."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.folded: nn.Module | None = None
        self.folded_from: tuple[tuple[int, int], ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.model.training:
            self.folded = None
            return self.model(*args, **kwargs)
        if self.folded is None or self.folded_from != self._versions():
            self.folded, self.folded_from = fold(self.model), self._versions()
        return self.folded(*args, **kwargs)

    def _versions(self) -> tuple[tuple[int, int], ...]:
        tensors = (*self.model.parameters(), *self.model.buffers())
        return tuple((tensor.data_ptr(), tensor._version) for tensor in tensors)


EXAMPLES = (ConvBnFold(),)
