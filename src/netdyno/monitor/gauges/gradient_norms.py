"""How large gradients are when a step meets them, layer by layer.

Shows:     one number per layer and one for all together, with the largest, the smallest and the mean layer of each look;
           a layer that learns nothing, an explosion that begins somewhere.
Costs:     one pass over all gradients at each look, in one batched call.
Not seen:  sparse gradients, and of sharded ones the part of other processes.
"""

import math
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told, norms, readable

# Layers that have a series of their own; the others count in the total. More lines than this nobody reads.
MOST_LAYERS = 128


class GradientNorms(Gauge):
    """Norms as the step meets them: without a scaler's factor, and after clipping where the script clips."""

    series: ClassVar[dict[str, Told]] = {
        "gradient_norm": Told("", "norm of all gradients of an optimizer at its step"),
        "gradient_norm/*": Told("", "norm of one layer's gradients at the step"),
        "gradient_norm_max": Told("", "the largest norm among the layers"),
        "gradient_norm_min": Told("", "the smallest norm among the layers"),
        "gradient_norm_mean": Told("", "the mean norm of the layers"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.with_closure: set[int] = set()  # optimizers whose gradients come into being within the step

    def step(self, optimizer: Any) -> None:
        """Before the step."""
        if id(optimizer) not in self.with_closure:
            self._look(optimizer)

    def differentiated(self, *_: Any) -> None:
        """A backward pass within a step: what stood in the gradients before it was of no step."""
        observer = self.watch.observer
        if observer.stepping and len(self.with_closure) < MOST_LAYERS:
            self.with_closure.add(id(observer._stepper))

    def stepped(self, optimizer: Any) -> None:
        """After a step that made its own gradients."""
        if id(optimizer) in self.with_closure:
            self._look(optimizer)

    def _look(self, optimizer: Any) -> None:
        found = [(name, grad) for name, p in self.layers(optimizer) if (grad := readable(p.grad)) is not None]
        if not found:
            return
        told = norms([grad for _, grad in found])
        scale = getattr(optimizer, "grad_scale", None)  # a fused step takes the scaler's factor out itself
        if scale is not None:
            told = told / scale.to(told.device)
        names, mark = [name for name, _ in found], self.mark(optimizer)
        self.later(told, lambda values, at: self._told(names, values.tolist(), mark, at))

    def _told(self, names: list[str], values: list[float], mark: str, at: int) -> None:
        squares: dict[str, float] = {}
        for name, value in zip(names, values, strict=True):
            squares[name] = squares.get(name, 0.0) + value * value
        layers = {name: math.sqrt(square) for name, square in squares.items()}
        self.tell(f"gradient_norm{mark}", math.sqrt(sum(squares.values())), at)
        self.tell(f"gradient_norm_max{mark}", max(layers.values()), at)
        self.tell(f"gradient_norm_min{mark}", min(layers.values()), at)
        self.tell(f"gradient_norm_mean{mark}", sum(layers.values()) / len(layers), at)
        for name in list(layers)[:: -(-len(layers) // MOST_LAYERS)]:
            self.tell(f"gradient_norm/{name}{mark}", layers[name], at)


GAUGE = GradientNorms
