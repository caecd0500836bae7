"""How often gradients are clipped, and how large they were before.

Shows:     the share of clipping calls that had something to clip. Where it creeps up, an explosion is on its way; where it is
           one from the start, the limit has become the learning rate.
Costs:     reading the norm that clip_grad_norm_ computed anyway.
Not seen:  clipping by value, and clipping that does not go through torch.nn.utils.
"""

import math
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told

# On a device so many norms are fetched at once.
AT_ONCE = 32


class ClipRate(Gauge):
    """Counts calls of clip_grad_norm_ whose norm was above their limit."""

    series: ClassVar[dict[str, Told]] = {
        "clip_rate": Told("", "share of the clipping calls heard in about a second that clipped"),
        "clip_rate_total": Told("", "the same since the run began"),
        "clip_norm": Told("", "the largest norm before clipping among them"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.fresh: list[tuple[float, float]] = []
        self.calls = self.clipped = 0
        self._waiting: list[tuple[Any, float]] = []

    def every_clip(self, name: str, _: Any, limit: Any, result: Any) -> None:
        """One call."""
        if name != "clip_grad_norm_" or limit is None or result is None:
            return
        result = getattr(result, "_local_tensor", result)
        if result.is_cpu:
            self.fresh.append((float(result), float(limit)))
            return
        self._waiting.append((result.detach(), float(limit)))
        if len(self._waiting) >= AT_ONCE:
            self._fetch()

    def _fetch(self) -> None:
        import torch

        waiting, self._waiting = self._waiting, []
        limits = [limit for _, limit in waiting]
        self.later(
            torch.stack([norm for norm, _ in waiting]).float(),
            lambda values, _: self.fresh.extend(zip(values.tolist(), limits, strict=True)),
        )

    def tick(self, seconds: float) -> None:
        """The rate since the last time."""
        super().tick(seconds)
        taken = self.fresh[:]
        del self.fresh[: len(taken)]
        if not taken:
            return
        # A norm that is NaN is above nothing, and yet no healthy step: counted as clipped, as an infinite one.
        clipped = sum(not norm <= limit for norm, limit in taken)
        self.calls += len(taken)
        self.clipped += clipped
        self.tell("clip_rate", clipped / len(taken))
        self.tell("clip_rate_total", self.clipped / self.calls)
        self.tell("clip_norm", max((norm for norm, _ in taken if not math.isnan(norm)), default=math.nan))


GAUGE = ClipRate
