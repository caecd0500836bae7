"""Running statistics of batch normalisation: how they drift, and channels that have gone flat.

Shows:     how far a layer's running means have moved against their own last checkpoint, in standard deviations, and by what share
           its variances have changed; channels whose variance is next to nothing. Statistics that still drift late in a
           run are the training's own, and evaluation will not be what training was.
Costs:     a read of the running statistics, a few values per channel, every hundred updates at most.
Not seen:  normalisations without running statistics.
"""

from typing import Any, ClassVar

import numpy as np

from netdyno.monitor.gauges._base import Gauge, Told, plain_name, readable

# Updates from one checkpoint to the next: with the usual momentum of 0.1 statistics have forgotten what they were ten times
# over, so what differs is the data or the weights.
APART = 100
# Below this variance a channel's output is divided by little else than epsilon (1e-5 by default).
FLAT = 1e-5
MOST_LAYERS = 128


class NormStatistics(Gauge):
    """Compares running statistics with themselves a hundred updates or more ago; the worst channel speaks for its layer."""

    series: ClassVar[dict[str, Told]] = {
        "norm_drift/mean/*": Told(
            "", "the most that a channel's running mean moved since the checkpoint, in standard deviations"
        ),
        "norm_drift/var/*": Told(
            "", "the most that a channel's running variance changed since the checkpoint, as a share"
        ),
        "norm_drift/mean": Told("", "the layer that moved most: its mean"),
        "norm_drift/var": Told("", "the layer that changed most: its variance"),
        "norm_flat_channels": Told("channels", "channels with a running variance below 1e-5"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.next = 0
        self.known: tuple[int, list[tuple[str, Any]]] = (0, [])
        self.before: tuple[list[int], Any, Any] | None = None

    def update(self, number: int) -> None:
        """A checkpoint is due, or not."""
        if number < self.next:
            return
        import torch

        layers = [
            (name, mean, var)
            for name, module in self._layers()
            if (mean := readable(module.running_mean)) is not None and (var := readable(module.running_var)) is not None
        ][:MOST_LAYERS]
        self.next = number + APART
        if layers:
            device = layers[0][1].device
            told = torch.cat([part.to(device, non_blocking=True).float() for _, *both in layers for part in both])
            widths = [(name, mean.numel()) for name, mean, _ in layers]
            self.later(told, lambda values, at: self._told(widths, values.copy(), at), number)

    def _layers(self) -> list[tuple[str, Any]]:
        models = self.models()
        if self.known[0] != len(models):
            self.known = (
                len(models),
                [
                    (
                        ".".join(part for part in (name if len(models) > 1 else "", plain_name(path)) if part) or name,
                        module,
                    )
                    for name, model in models.items()
                    for path, module in model.named_modules()
                    if getattr(module, "running_mean", None) is not None
                    and getattr(module, "running_var", None) is not None
                ],
            )
        return self.known[1]

    def _told(self, widths: list[tuple[str, int]], values: Any, at: int) -> None:
        means, variances, start = [], [], 0
        for _, width in widths:
            means.append(values[start : start + width])
            variances.append(values[start + width : start + 2 * width])
            start += 2 * width
        self.tell("norm_flat_channels", sum(int((var < FLAT).sum()) for var in variances), at)
        sizes = [width for _, width in widths]
        before, self.before = self.before, (sizes, means, variances)
        if before is None or before[0] != sizes:
            return
        worst = [0.0, 0.0]
        for (name, _), mean, var, mean_was, var_was in zip(widths, means, variances, before[1], before[2], strict=True):
            with np.errstate(all="ignore"):
                # A flat channel's deviation is noise: epsilon is what the layer itself adds.
                moved = float((np.abs(mean - mean_was) / np.sqrt(var_was + FLAT)).max())
                changed = float((np.abs(var - var_was) / (var_was + FLAT)).max())
            self.tell(f"norm_drift/mean/{name}", moved, at)
            self.tell(f"norm_drift/var/{name}", changed, at)
            worst = [max(worst[0], moved), max(worst[1], changed)]
        self.tell("norm_drift/mean", worst[0], at)
        self.tell("norm_drift/var", worst[1], at)


GAUGE = NormStatistics
