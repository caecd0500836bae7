"""Where dropout stands in a model, and where it should not: behind a residual sum, before a batch norm, between convolutions.

The model is traced by torch.fx and nothing is run. What cannot be traced is not judged. Modules of PyTorch itself, such as its transformer
layers, are looked at from outside only.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from netdyno.knobs._layers import Activation, BatchNorm, Convolution, Norm, Transposed, Weighted
from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Outcome, Saving

RULE = "misplaced-dropout"

_SUMS = {operator.add, operator.iadd, torch.add}
_DROPS = {F.dropout, torch.dropout}
# They let through what they get, bent or in another shape.
_BENDS = {F.relu, F.gelu, F.silu, F.leaky_relu, F.elu, torch.relu, torch.tanh, torch.sigmoid, F.sigmoid, F.tanh}
_SHAPES = {
    torch.flatten, F.max_pool2d, F.avg_pool2d, F.adaptive_avg_pool2d, F.max_pool1d, F.avg_pool1d, torch.reshape,
}  # fmt: skip
_POOLS = (
    nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d,
    nn.AdaptiveMaxPool2d, nn.Flatten, nn.Unflatten, nn.Identity,
)  # fmt: skip
_BEND_METHODS = {"relu", "tanh", "sigmoid"}
_SHAPE_METHODS = {"flatten", "view", "reshape", "contiguous"}


def misplaced(model: nn.Module) -> tuple[Outcome, ...]:
    """One outcome for each dropout that stands where it does harm, or one that says that none does or why nobody can tell."""
    try:
        graph = fx.Tracer().trace(model)
    except Exception as error:
        reason = f"the model cannot be traced: {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}"
        return (Outcome(rule=RULE, state="skipped", reason=reason),)
    seen = _Seen(model)
    findings = [finding for node in graph.nodes if seen.drops(node) for finding in _judged(node, seen)]
    if not findings:
        return (Outcome(rule=RULE, state="clear"),)
    return tuple(Outcome(rule=RULE, state="suspected", finding=finding) for finding in findings)


def _judged(node: fx.Node, seen: "_Seen") -> Iterator[Finding]:
    if seen.behind_a_sum(node):
        yield _wrong(
            node, seen, "drops part of a residual sum, and with it the shortcut that the gradient comes back by",
            fix="put it inside the branch, before the sum", confidence=0.65,
        )  # fmt: skip
    norm = seen.next_batch_norm(node)
    if norm is not None:
        yield _wrong(
            node, seen, f"stands before the batch norm `{norm}`, which learns a variance that there is in training only",
            fix="put it behind the last batch norm", confidence=0.65,
        )  # fmt: skip
    elif seen.between_convolutions(node):
        yield _wrong(
            node, seen, "drops single pixels between convolutions, whose neighbours tell what was left out",
            fix="leave it out there, or drop whole channels with `torch.nn.Dropout2d`", confidence=0.6,
        )  # fmt: skip


def _wrong(node: fx.Node, seen: "_Seen", says: str, *, fix: str, confidence: float) -> Finding:
    return Finding(
        id=RULE, says=f"dropout `{node.target if node.op == 'call_module' else node.name}` {says}",
        layer="generalisation", stage="structure", saves=Saving(low=0.0, high=0.0),
        because={"share": seen.share(node)}, fix=fix, confidence=confidence,
        where=Place(module=str(node.target) if node.op == "call_module" else node.name),
    )  # fmt: skip


class _Seen:
    """What the nodes of a traced model are."""

    def __init__(self, model: nn.Module) -> None:
        self.modules = dict(model.named_modules())

    def module(self, node: fx.Node) -> nn.Module | None:
        return self.modules.get(str(node.target)) if node.op == "call_module" else None

    def drops(self, node: fx.Node) -> bool:
        """True for dropout of single numbers that leaves something out."""
        if isinstance(self.module(node), nn.Dropout) or (node.op == "call_function" and node.target in _DROPS):
            return self.share(node) > 0
        return False

    def share(self, node: fx.Node) -> float:
        module = self.module(node)
        if isinstance(module, nn.Dropout):
            return float(module.p)
        found = node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5)
        return float(found) if isinstance(found, int | float) else 0.5

    def bends(self, node: fx.Node) -> bool:
        return isinstance(self.module(node), Activation) or self._calls(node, _BENDS, _BEND_METHODS)

    def shapes(self, node: fx.Node) -> bool:
        return isinstance(self.module(node), _POOLS) or self._calls(node, _SHAPES, _SHAPE_METHODS)

    def sums(self, node: fx.Node) -> bool:
        return self._calls(node, _SUMS, {"add", "add_"}) and sum(isinstance(a, fx.Node) for a in node.args[:2]) == 2

    def behind_a_sum(self, node: fx.Node) -> bool:
        """True when the numbers dropped are a sum with a shortcut, perhaps bent once."""
        source = _first_input(node)
        while source is not None and self.bends(source):
            source = _first_input(source)
        return source is not None and self.sums(source) and self._residual(*source.args[:2])

    def _residual(self, one: Any, other: Any) -> bool:
        """True when one side is what the other is made from, as it was or by way of a projection.

        A word plus its position is no shortcut, and neither is the sum of two layers that were given the same.
        """
        starts = self._before_projection(one), self._before_projection(other)
        if one in _ancestors(other) or other in _ancestors(one):
            return True
        return starts[0] is not starts[1] and (starts[0] in _ancestors(other) or starts[1] in _ancestors(one))

    def _before_projection(self, node: fx.Node) -> fx.Node:
        while isinstance(self.module(node), (*Weighted.__args__, *Norm.__args__, nn.Identity)):
            before = _first_input(node)
            if before is None:
                break
            node = before
        return node

    def next_batch_norm(self, node: fx.Node) -> str | None:
        """The batch norm behind a dropout with at most one layer in between; a norm of another kind ends the way."""
        return self._found(node, lambda module: isinstance(module, BatchNorm), weights=1)

    def between_convolutions(self, node: fx.Node) -> bool:
        kinds = (*Convolution.__args__, *Transposed.__args__)
        if self._found(node, lambda module: isinstance(module, kinds), weights=0) is None:
            return False
        source = _first_input(node)
        while source is not None and (
            self.bends(source) or self.shapes(source) or isinstance(self.module(source), Norm)
        ):
            source = _first_input(source)
        return source is not None and isinstance(self.module(source), kinds)

    def _found(self, node: fx.Node, wanted: Callable[[Any], bool], *, weights: int) -> str | None:
        """The name of the first wanted module behind a node, through at most so many weights and whatever bends or reshapes."""
        for user in node.users:
            module = self.module(user)
            if wanted(module):
                return str(user.target)
            if isinstance(module, Weighted) and weights > 0:
                found = self._found(user, wanted, weights=weights - 1)
            elif self.bends(user) or self.shapes(user):
                found = self._found(user, wanted, weights=weights)
            else:
                found = None
            if found is not None:
                return found
        return None

    def _calls(self, node: fx.Node, functions: set[Any], methods: set[str]) -> bool:
        if node.op == "call_function":
            return node.target in functions
        return node.op == "call_method" and node.target in methods


def _first_input(node: fx.Node) -> fx.Node | None:
    return next((one for one in node.args if isinstance(one, fx.Node)), None)


def _ancestors(node: fx.Node) -> set[fx.Node]:
    """All nodes that a node is made of."""
    found: set[fx.Node] = set()
    left = list(node.all_input_nodes)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += one.all_input_nodes
    return found
