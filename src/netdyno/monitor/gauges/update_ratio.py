"""How far a step moves each layer, compared with how large its weights are.

Shows:     a learning rate that does nothing (1e-6 and less) or tears layers apart (above 0.1), layer by layer.
Costs:     a copy of a part of each weight at each look, some thousand values, and three batched calls.
Not seen:  all values of large weights: of each weight 4096, evenly spread, stand for the rest.
"""

import math
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told, norms, readable, spread_out

# Of each weight so many values: their norm is known to two per cent, and a copy of 128 of them takes 2 MB.
PART, MOST_TENSORS, MOST_LAYERS = 4096, 512, 128


class UpdateRatio(Gauge):
    """The norm of a step over the norm of the weights before it."""

    series: ClassVar[dict[str, Told]] = {
        "update_ratio/*": Told("", "norm of a step over the norm of the layer's weights"),
        "update_ratio": Told("", "the median layer's ratio"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: tuple[Any, list[str], list[Any], list[Any]] | None = None

    def step(self, optimizer: Any) -> None:
        """A part of each weight before the step."""
        held = self.layers(optimizer)
        parts = [
            (name, spread_out(part, PART))
            for name, p in held[:: -(-len(held) // MOST_TENSORS)]
            if p.requires_grad and (part := readable(p)) is not None
        ]
        if parts:
            live = [part for _, part in parts]
            self.before = optimizer, [name for name, _ in parts], live, [part.clone() for part in live]

    def stepped(self, optimizer: Any) -> None:
        """How far it moved."""
        import torch

        before, self.before = self.before, None
        if before is None or before[0] is not optimizer:
            return
        _, names, live, kept = before
        told = norms([*torch._foreach_sub(live, kept), *kept])
        mark = self.mark(optimizer)
        self.later(told, lambda values, at: self._told(names, values.tolist(), mark, at))

    def _told(self, names: list[str], values: list[float], mark: str, at: int) -> None:
        ways: dict[str, float] = {}  # squares, by layer
        sizes: dict[str, float] = {}
        for name, way, size in zip(names, values[: len(names)], values[len(names) :], strict=True):
            ways[name] = ways.get(name, 0.0) + way * way
            sizes[name] = sizes.get(name, 0.0) + size * size
        ratios = {name: math.sqrt(ways[name] / sizes[name]) for name in ways if sizes[name] > 0}
        if not ratios:
            return
        self.tell(f"update_ratio{mark}", sorted(ratios.values())[len(ratios) // 2], at)
        for name in list(ratios)[:: -(-len(ratios) // MOST_LAYERS)]:
            self.tell(f"update_ratio/{name}{mark}", ratios[name], at)


GAUGE = UpdateRatio
