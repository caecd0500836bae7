"""The size of the signal layer by layer, before the first update.

With weights drawn for ReLUs (He 2015) the deviation before an activation is the root of 2, 1.414, and the root mean square behind it is 1:
that is what is the same at every depth, not the deviation before it. PyTorch's own weights start at 0.577.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.knobs._layers import Dropout, Weighted, fan_in, weighted
from netdyno.records.study import Curve
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch

# A root mean square within a factor of 2 of 1 is drawn as it should be; sampling alone moves narrow layers by a fifth.
AS_DRAWN = 2.0
# Optimizers that scale each gradient, and norms, make up for a tenth. At a thousandth the squares of gradients are lost in
# half precision, whose smallest number is 6e-8, and plain SGD does not move the first layers any more.
LOST = 1000.0


class Sized(NamedTuple):
    """One layer. `received` is the root mean square of its inputs, `deviation` that of its outputs about their mean (before the
    activation), `passed_on` the root mean square of what the next layer receives: behind activation, norm and pooling.
    """

    name: str
    kind: str
    fan_in: float
    received: float
    deviation: float
    passed_on: float | None


def walk(
    model: nn.Module, batch: Batch, *, forward: Callable[[nn.Module, Batch], Any] | None = None
) -> tuple[Sized, ...]:
    """Sends a batch through a copy of the model and tells the size of the signal at every linear and convolutional layer.

    Norms work as in training, dropout is off. Model and random generators are left as they were.
    """
    looked = copy.deepcopy(model).train()
    for module in looked.modules():
        if isinstance(module, Dropout):
            module.eval()
    seen: list[tuple[str, Any, float, float]] = []
    hooks = [layer.register_forward_hook(_noting(name, seen)) for name, layer in weighted(looked)]
    try:
        with kept_randomness(), torch.no_grad():
            (forward or _forward)(looked, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(
        Sized(name, type(layer).__name__, fan_in(layer), received, deviation, passed_on)
        for (name, layer, received, deviation), passed_on in zip(
            seen, [*[one[2] for one in seen[1:]], None], strict=False
        )
    )


def steady(layers: Sequence[Sized], *, factor: float = AS_DRAWN) -> bool:
    """True when what every layer but the last passes on has a root mean square of 1, within `factor` (ledger A-151)."""
    return all(1 / factor <= one.passed_on <= factor for one in layers if one.passed_on is not None)


def says(layers: Sequence[Sized]) -> str:
    """What the walk shows, in a sentence."""
    sizes = [one.passed_on for one in layers if one.passed_on is not None]
    if not sizes:
        return "there are too few layers to compare"
    if not all(0 < size < float("inf") for size in sizes):
        return "the signal is 0 or endless before the first update"
    if steady(layers):
        return f"the signal keeps its size: {min(sizes):.2f} to {max(sizes):.2f} behind the activations"
    times = sizes[-1] / sizes[0]
    if max(times, 1 / times) < AS_DRAWN:
        return f"the signal keeps its size, at {sizes[0]:.2g} and not at 1"
    grown = f"grows {times:.3g} times" if times > 1 else f"shrinks to {times:.2g}"
    harm = "; the first layers will hardly learn" if max(times, 1 / times) > LOST else ""
    return f"the signal {grown} between the first and the last layer{harm}"


def curve(layers: Sequence[Sized]) -> Curve:
    """The walk as something to draw."""
    known = [one for one in layers if one.passed_on is not None]
    return Curve(
        name="variance walk",
        x_name="layer",
        y_name="size of the signal",
        x=tuple(float(at) for at in range(1, len(known) + 1)),
        lines={
            "deviation before the activation": tuple(one.deviation for one in known),
            "root mean square behind it": tuple(one.passed_on or 0.0 for one in known),
        },
    )


def _noting(name: str, seen: list[tuple[str, Any, float, float]]) -> Callable[[nn.Module, Any, Any], None]:
    def note(layer: nn.Module, inputs: Any, output: Any) -> None:
        # A layer that runs several times is told as it ran first.
        if isinstance(layer, Weighted) and not any(layer is one[1] for one in seen):
            seen.append((name, layer, _root_mean_square(inputs[0]), float(output.double().std(correction=0))))

    return note


def _root_mean_square(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())


def _forward(model: nn.Module, batch: Batch) -> Any:
    return model(*batch[:-1])
