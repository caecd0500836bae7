"""The factor of a GradScaler, and the steps that it skips.

Shows:     a scale that collapses (gradients overflow again and again) or stands at its minimum, and the share of skipped steps.
           Some skips at the beginning, and one whenever the scale grows, are how scaling works.
Costs:     one read per call of `GradScaler.update`, on a device at looks only.
Not seen:  scaling by hand or by a library of its own.
"""

from functools import partial
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told


class LossScale(Gauge):
    """Follows whatever GradScaler is updated."""

    series: ClassVar[dict[str, Told]] = {
        "loss_scale": Told("", "the scaler's factor"),
        "skip_rate": Told("", "share of the steps of about a second that the scaler skipped"),
        "skip_rate_total": Told("", "the same since the run began"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.scale: Any = None  # the tensor
        self.last: float | None = None
        self.counted = (0, 0)
        from torch.amp.grad_scaler import GradScaler

        self.watch.observer.replacements.replace("gauge scaler", GradScaler, "update", partial(_update, self))

    def updated(self, scaler: Any) -> None:
        """A scaler has chosen its next factor."""
        self.scale = getattr(scaler, "_scale", None)
        if self.scale is not None and self.scale.is_cpu:
            self._told(float(self.scale))

    def update(self, number: int) -> None:
        """On a device the factor is fetched at looks."""
        if self.scale is not None and not self.scale.is_cpu:
            self.later(self.scale.detach().reshape(1), lambda values, at: self._told(float(values[0]), at), number)

    def _told(self, scale: float, at: int | None = None) -> None:
        if scale != self.last:
            self.last = scale
            self.tell("loss_scale", scale, at)

    def tick(self, seconds: float) -> None:
        """Skips are counted by the observer."""
        super().tick(seconds)
        if self.scale is None:
            return
        entries = list(self.watch.observer.facts.optimizers)
        skipped, stepped = sum(entry.skipped for entry in entries), sum(entry.steps for entry in entries)
        more, made = skipped - self.counted[0], skipped + stepped - sum(self.counted)
        self.counted = skipped, stepped
        if made > 0:
            self.tell("skip_rate", more / made)
            self.tell("skip_rate_total", skipped / (skipped + stepped))


def _update(gauge: LossScale, original: Any) -> Any:
    def update(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        observer = gauge.watch.observer
        if self.is_enabled() and observer.candidate():
            observer.guarded("gauge loss-scale", gauge.updated, self)
        return result

    return update


GAUGE = LossScale
