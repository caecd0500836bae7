"""Values that half precision cannot hold, in gradients and in the model's output.

Shows:     shares of values below 6.1e-5 (float16 holds them with fewer bits), below 6.0e-8 (it holds zero instead) and above
           65504 (infinity): whether float16 would do, and whether a scaler's factor is high enough.
Costs:     some ten thousand values, evenly from all gradients, at each look; in float32 at one look in eight.
Not seen:  single values: a share of less than one in ten thousand may be missed. Activations within the model.
"""

from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told, first_tensor, readable, spread_out

# float16: its smallest normal number, half of its smallest number of all (what is rounded to zero), its largest number.
SUBNORMAL, ZERO, LARGEST = 6.1e-5, 6.0e-8, 65504.0
# Enough to see one in ten thousand.
SAMPLE = 16_384
# In float32 it is a forecast, and one look in so many is enough for it.
RARE = 8
MOST_TENSORS = 512


class HalfRange(Gauge):
    """Gradients as the backward pass left them, so with a scaler's factor; values that are exactly zero do not count as small."""

    series: ClassVar[dict[str, Told]] = {
        "half_range/gradients/subnormal": Told("", "share of gradient values below 6.1e-5 that are not zero"),
        "half_range/gradients/flushed": Told("", "share of gradient values below 6.0e-8 that are not zero"),
        "half_range/gradients/overflow": Told("", "share of gradient values above 65504 or not finite"),
        "half_range/gradients/zero": Told("", "share of gradient values that are zero"),
        "half_range/output/subnormal": Told("", "share of output values below 6.1e-5 that are not zero"),
        "half_range/output/flushed": Told("", "share of output values below 6.0e-8 that are not zero"),
        "half_range/output/overflow": Told("", "share of output values above 65504 or not finite"),
        "half_range/output/zero": Told("", "share of output values that are zero"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.limits: Any = None
        self.half = False
        self.asked = 0
        self.looked = -1  # one look per update: with accumulation there are many backward passes

    def differentiated(self, *_: Any) -> None:
        """Gradients after the pass."""
        if self.looked == self.at:
            return
        self.looked = self.at
        self.asked += 1
        self.half = self.half or self.watch.observer.facts.scaler_used
        if not self._due():
            return
        optimizers = self.optimizers()
        held = [p for one in optimizers for _, p in self.layers(one)] or [
            p for model in self.models().values() for p in model.parameters()
        ]
        found = [grad for p in held if (grad := readable(p.grad)) is not None]
        found = found[:: -(-len(found) // MOST_TENSORS)] if found else []
        if not found:
            self.asked = 0  # nothing is known yet: the first look is still to come
        else:
            most = sum(grad.numel() for grad in found)
            # The same distance in all of them: each value has the same chance.
            parts = [spread_out(grad, max(1, grad.numel() * SAMPLE // most)) for grad in found]
            self._count("gradients", parts)

    def called(self, call: Any) -> None:
        """The model's output."""
        output = readable(first_tensor(call.output)) if call.grad else None
        self.half = self.half or (output is not None and output.dtype.itemsize < 4)
        if output is not None and self._due():
            self._count("output", [spread_out(output, SAMPLE)])

    def _due(self) -> bool:
        return self.half or self.asked % RARE == 1 or not self.asked

    def _count(self, what: str, parts: list[Any]) -> None:
        import torch

        device = parts[0].device
        if self.limits is None or self.limits.device != device:
            self.limits = torch.tensor([[0.0], [ZERO], [SUBNORMAL], [LARGEST]]).to(device, non_blocking=True)
        values = torch.cat([part.to(device, non_blocking=True) for part in parts]).float().abs_()
        # A row each: at most zero, below the limits. What is not finite is at most nothing.
        shares = (values <= self.limits).sum(1) / values.numel()
        self.later(shares, lambda told, at: self._told(what, told.tolist(), at))

    def _told(self, what: str, shares: list[float], at: int) -> None:
        zero, flushed, subnormal, finite = shares
        self.tell(f"half_range/{what}/zero", zero, at)
        self.tell(f"half_range/{what}/flushed", flushed - zero, at)
        self.tell(f"half_range/{what}/subnormal", subnormal - zero, at)
        self.tell(f"half_range/{what}/overflow", 1 - finite, at)


GAUGE = HalfRange
