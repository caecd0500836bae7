"""Whether the loss swings instead of falling: the "ECG" of a learning rate that is too high.

Shows:     a score: less than about a tenth for a loss that falls, with whatever independent noise batches bring; the size of
           the swings, relative to the loss, where rises hang together or alternate. And the size of the noise itself.
Costs:     some hundred additions every five seconds on a thread of its own.
Not seen:  swings longer than a window of 256 updates, and those that drown in the noise of small batches. Data in a fixed order of few batches repeats itself, and scores.
"""

from typing import Any, ClassVar

import numpy as np

from netdyno.monitor.gauges._base import Gauge, Told

WINDOW, LEAST = 256, 64
EVERY_S = 5.0
LAGS = 8
# Autocorrelations of pure noise are within this many standard errors at all of eight lags in 99.9 per cent of windows.
ERRORS = 3.5


class LossOscillation(Gauge):
    """Takes what falls out of the last losses and asks whether the rest hangs together."""

    series: ClassVar[dict[str, Told]] = {
        "loss_oscillation": Told(
            "", "size of swings that hang together, relative to the loss; at most about 0.1 for noise alone"
        ),
        "loss_noise": Told("", "standard deviation of the loss around its descent, relative to the loss"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen = 0
        self.since = 0.0

    def tick(self, seconds: float) -> None:
        """Now and then, a score."""
        super().tick(seconds)
        self.since += seconds
        losses = list(self.watch.observer.recent)[-WINDOW:]
        if self.since < EVERY_S or not losses or losses[-1][0] < self.seen + LEAST:
            return
        self.since, self.seen = 0.0, losses[-1][0]
        found = score([loss for _, loss in losses])
        if found is not None:
            self.tell("loss_oscillation", found[0])
            self.tell("loss_noise", found[1])


def score(losses: list[float]) -> tuple[float, float] | None:
    """Swings and noise of a series, relative to its level; None where it is too short or not finite.

    >>> score([1.0 + 0.5 * (at % 2) for at in range(128)])[0] > 0.1
    True
    >>> score([2.0 - at / 128 for at in range(128)])
    (0.0, 0.0)
    """
    values = np.asarray(losses)
    if len(values) < LEAST or not np.isfinite(values).all():
        return None
    # The noise of batches goes with the loss: of logarithms it is as large at the beginning as at the end.
    positive = bool((values > 0).all())
    values = np.log(values) if positive else values / (np.abs(values).mean() or 1.0)
    rest = values - _descent(values)
    spread = float(rest.std())
    if spread <= 1e-9:
        return 0.0, 0.0
    # Ranks would lose the spikes, and plain values would be ruled by them: cut at four deviations.
    centred = np.clip(rest - np.median(rest), -4 * spread, 4 * spread)
    centred -= centred.mean()
    power = float((centred * centred).sum())
    together = [float((centred[lag:] * centred[:-lag]).sum()) / power for lag in range(1, LAGS + 1)]
    beyond = ERRORS / np.sqrt(len(values))
    strongest = max((abs(one) for one in together if abs(one) > beyond), default=0.0)
    return strongest * spread, spread


def _descent(values: Any) -> Any:
    """The nearest series that never rises (pooling of adjacent violators)."""
    blocks: list[list[float]] = []  # mean, length
    for value in values.tolist():
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            mean, length = blocks.pop()
            before = blocks[-1]
            whole = before[1] + length
            before[0] = (before[0] * before[1] + mean * length) / whole
            before[1] = whole
    return np.concatenate([np.full(int(length), mean) for mean, length in blocks])


GAUGE = LossOscillation
