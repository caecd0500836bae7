"""Units that have stopped to learn: no sample of any look has moved their bias.

Shows:     for each layer the share of units whose bias had a gradient of exactly zero at each of the last looks; a ReLU that
           never fires does that to the unit before it, in whatever way the ReLU is written, compiled or not. Which units,
           and how many samples say so, stands in the event `dead_units`.
Costs:     one read of all biases' gradients at each look.
Not seen:  units without a bias, unless a normalisation with one follows them. Why a unit is silent: a ReLU, a saturated sigmoid,
           a layer that this phase does not use, and float16 gradients that vanish look the same here.
"""

from collections import deque
from typing import Any, ClassVar

import numpy as np

from netdyno.monitor.gauges._base import Gauge, Told, readable

# Looks in which a unit must be silent: a healthy one that fires for one sample in a hundred is silent in all of eight batches
# of 64 once in a hundred; the first looks, at which zero-initialised branches are silent, have gone by then.
LOOKS = 8
# Units whose numbers are written down per layer, and lines of them in a run.
MOST_NAMED, MOST_EVENTS, MOST_LAYERS = 64, 100, 128


class DeadUnits(Gauge):
    """Reads gradients of biases at the step."""

    series: ClassVar[dict[str, Told]] = {
        "dead_units": Told("", "share of all units with a bias that are silent"),
        "dead_units/*": Told("", "share of a layer's units that are silent"),
        "dead_units_samples": Told("samples", "samples that these shares rest on"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.recent: dict[str, deque[tuple[Any, int]]] = {}
        self.names: dict[str, list[tuple[str, int]]] = {}
        self.said: dict[str, dict[str, int]] = {}
        self.events = 0
        self.samples = 0

    def called(self, call: Any) -> None:
        """How many samples there are in this update's batch."""
        if call.grad:
            batch = next((one for one in (*call.args, *call.kwargs.values()) if getattr(one, "shape", ())), None)
            self.samples += int(batch.shape[0]) if batch is not None else 1

    def stepped(self, optimizer: Any) -> None:
        """Gradients are still there after the step, whoever computed them."""
        import torch

        samples, self.samples = self.samples, 0
        found = [
            (name, grad)
            for name, p in self.layers(optimizer)
            if p.dim() == 1 and self._is_bias(p) and (grad := readable(p.grad)) is not None
        ][: 4 * MOST_LAYERS]
        if not found:
            return
        device = found[0][1].device
        silent = torch.cat([grad.to(device, non_blocking=True).float() for _, grad in found]) == 0
        widths = [(name, grad.numel()) for name, grad in found]
        mark = self.mark(optimizer)
        self.later(silent, lambda values, at: self._told(mark, widths, values, samples, at))

    def _is_bias(self, parameter: Any) -> bool:
        biases = self.shared.__dict__.setdefault("biases", {})
        if id(parameter) not in biases:
            biases.clear()
            for model in self.models().values():
                biases.update({id(p): name.rpartition(".")[2].endswith("bias") for name, p in model.named_parameters()})
            biases.setdefault(id(parameter), False)
        return biases[id(parameter)]

    def _told(self, mark: str, widths: list[tuple[str, int]], silent: Any, samples: int, at: int) -> None:
        if silent.all():
            return  # no gradient anywhere (a loss of zero): this look says nothing of units
        if self.names.get(mark) != widths:
            self.names[mark], self.recent[mark] = widths, deque(maxlen=LOOKS)
        kept = self.recent[mark]
        kept.append((silent, samples))
        if len(kept) < LOOKS:
            return
        dead = np.logical_and.reduce([one for one, _ in kept])
        behind = sum(one for _, one in kept)
        self.tell(f"dead_units{mark}", float(dead.mean()), at)
        self.tell(f"dead_units_samples{mark}", behind, at)
        start, layers = 0, {}
        for name, width in widths:
            layers[name] = dead[start : start + width]
            start += width
        for name in list(layers)[:MOST_LAYERS]:
            self.tell(f"dead_units/{name}{mark}", float(layers[name].mean()), at)
        self._name_them(mark, {name: units for name, units in layers.items() if units.any()}, behind, at)

    def _name_them(self, mark: str, layers: dict[str, Any], samples: int, at: int) -> None:
        counts = {name: int(units.sum()) for name, units in layers.items()}
        if counts == self.said.get(mark, {}) or self.events >= MOST_EVENTS:
            return
        self.said[mark] = counts
        self.events += 1
        told = {
            name: {"dead": counts[name], "of": len(units), "units": np.flatnonzero(units)[:MOST_NAMED].tolist()}
            for name, units in list(layers.items())[:MOST_LAYERS]
        }
        self.event("dead_units", at=at, samples=samples, looks=LOOKS, layers=told)


GAUGE = DeadUnits
