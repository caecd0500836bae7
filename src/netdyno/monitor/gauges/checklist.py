"""What a careful person looks at when an epoch is over, as one event `checklist` with pass, fail or unknown for each item.

Shows:     whether the loss is finite and has not risen; whether gradients are in the range of this run's own history (and reach the
           first layers at all); whether the last layer's output differs from sample to sample; whether units learn; whether
           a warm-up goes smoothly. Each with its value and the limit it was held to.
Costs:     arithmetic on some hundred numbers that other gauges have told, once per epoch.
Not seen:  epochs of loops that draw batches without a DataLoader. What its gauges had no budget to look at is `unknown`.
"""

import math
import time
from collections import deque
from statistics import median
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told

# An epoch of one batch is a loader that is made anew for each step.
LEAST_BATCHES = 2
# Epochs that are each written down; after them one in so many seconds. Tiny data have thousands.
EACH, APART_S = 50, 10.0
# Epochs whose list is filled in whatever it costs; after them, for so much of the time. Some epochs take twenty milliseconds.
FIRST, SHARE = 8, 0.0003
# Times the history's median: a factor of ten is an explosion in the seed of this list, and healthy runs stay within five.
EXPLODING = 10.0
# A thousandth of the history while the loss is where it was. Gradients that shrink because the loss does are success.
VANISHING, SAME_LOSS = 1e-3, 0.5
# The smallest layer's norm over the largest one's: below the resolution of float32 nothing reaches that layer.
REACH = 1e-7
# Of the output's size: what differs less from sample to sample is rounding.
CONSTANT = 1e-6
# Standard errors of the mean by which an epoch's loss must be above the one before to be called risen.
ERRORS = 4.0
# The worst layer's share of silent units: half a layer is lost in many healthy ReLU networks.
SILENT = 0.95


class Checklist(Gauge):
    """Fills in the list when the training's loader begins anew."""

    series: ClassVar[dict[str, Told]] = {
        "checklist_failed": Told("items", "items of the epoch's checklist that failed"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.loader: Any = None
        self.begun = self.batches = self.started = 0
        self.epochs = self.written = 0
        self.written_at = -math.inf
        self.spent_s, self.since = 0.0, 0.0
        self.span = (0, 0)  # updates of the epoch that is looked at: after the first, up to the last
        self.before: tuple[float, float] | None = None  # mean loss of the epoch before, and its standard error
        self.history: dict[str, deque[float]] = {"norms": deque(maxlen=64), "losses": deque(maxlen=64)}
        self.clock = time.monotonic

    def every_update(self, number: int) -> None:
        """Has the loader begun anew since?"""
        known = self.watch.observer.fetched
        if known is not None and self.loader is None and known.trains:
            self.loader, self.begun, self.batches = known, known.iterations, known.first_of_epoch - 1
        known = self.loader
        if known is None or known.iterations == self.begun:
            return
        epochs, batches = known.iterations - self.begun, known.first_of_epoch - 1 - self.batches
        self.begun, self.batches = known.iterations, known.first_of_epoch - 1
        if batches >= LEAST_BATCHES * epochs:
            # Not every update is listened to, so the new epoch may have begun some updates ago.
            into = known.batches - self.batches
            updates = max(1, round(into * (number - self.started) / (batches + into)))
            self._over(epochs, number - updates)

    def _over(self, epochs: int, last: int) -> None:
        self.epochs += epochs
        first, self.started = self.started, last
        began = self.clock()
        self.since = self.since or began
        if self.epochs > FIRST and self.spent_s > SHARE * (began - self.since):
            return
        items = self._items(first, last)
        now = self.clock()
        self.spent_s += now - began
        if self.written < EACH or now - self.written_at >= APART_S:
            self.written += 1
            self.written_at = now
            self.event("checklist", epoch=self.epochs, items=items)
            self.tell("checklist_failed", sum(item["state"] == "fail" for item in items), last)

    def _items(self, first: int, last: int) -> list[dict[str, Any]]:
        self.span = first, last
        losses = [loss for at, loss in list(self.watch.observer.recent) if first < at <= last]
        norms = self._of("gradient_norm")
        items = [
            finite(losses),
            self._not_risen(losses),
            exploding(norms, list(self.history["norms"])),
            self._vanishing(norms, losses),
            reaching(self._of("gradient_norm_min"), self._of("gradient_norm_max")),
            constant(self._of("output/spread"), self._of("output/max"), self._of("output/min")),
            self._silent(),
            smooth(losses, self._rates()),
        ]
        finite_norms = [one for one in norms if math.isfinite(one)]
        if finite_norms:
            self.history["norms"].append(median(finite_norms))
        if losses and math.isfinite(median(losses)):
            self.history["losses"].append(median(losses))
        return items

    def _of(self, name: str) -> list[float]:
        """What another gauge has told of this epoch."""
        first, last = self.span
        return [value for at, value in list(self.shared.board.get(name, ())) if first < at <= last]

    def _rates(self) -> list[float]:
        """The first group's learning rate in this epoch."""
        name = next((name for name in self.shared.board if name.startswith("learning_rate/")), "")
        return self._of(name)

    def _not_risen(self, losses: list[float]) -> dict[str, Any]:
        before, self.before = self.before, None
        if len(losses) < 4 or not all(math.isfinite(loss) for loss in losses):
            return item("loss-not-risen", None, None)
        mean = sum(losses) / len(losses)
        error = math.sqrt(sum((loss - mean) ** 2 for loss in losses) / (len(losses) - 1) / len(losses))
        self.before = mean, error
        if before is None:
            return item("loss-not-risen", None, None)
        # A little is allowed: the order of batches differs, and losses at their floor go up and down.
        limit = before[0] + ERRORS * math.hypot(error, before[1]) + 0.05 * abs(before[0])
        return item("loss-not-risen", mean, limit, passed=mean <= limit)

    def _vanishing(self, norms: list[float], losses: list[float]) -> dict[str, Any]:
        history, past = list(self.history["norms"]), list(self.history["losses"])
        known = [one for one in norms if math.isfinite(one)]
        if not history or not known or not past or not losses:
            return item("gradients-not-vanished", None, None)
        value, limit = median(known), VANISHING * median(history)
        shrunk = median(losses) < SAME_LOSS * median(past)
        return item("gradients-not-vanished", value, limit, passed=value >= limit or shrunk)

    def _silent(self) -> dict[str, Any]:
        shares = [
            value for name in list(self.shared.board) if name.startswith("dead_units/") for value in self._of(name)[-1:]
        ]
        return (
            item("units-learn", max(shares), SILENT, passed=max(shares) < SILENT)
            if shares
            else item("units-learn", None, None)
        )


def item(name: str, value: float | None, limit: float | None, *, passed: bool | None = None) -> dict[str, Any]:
    """One line of the list."""
    return {
        "item": name,
        "state": {True: "pass", False: "fail", None: "unknown"}[passed],
        "value": value,
        "limit": limit,
    }


def finite(losses: list[float]) -> dict[str, Any]:
    """The share of losses that are numbers."""
    if not losses:
        return item("loss-finite", None, 1.0)
    share = sum(math.isfinite(loss) for loss in losses) / len(losses)
    return item("loss-finite", share, 1.0, passed=share == 1.0)


def exploding(norms: list[float], history: list[float]) -> dict[str, Any]:
    """The epoch's median gradient norm against the medians of the epochs before; one that is not finite always fails.

    The median: single large gradients are what clipping and tripwires are for.
    """
    if any(math.isnan(one) or math.isinf(one) for one in norms):
        return item("gradients-not-exploded", math.inf, None, passed=False)
    if not norms or not history:
        return item("gradients-not-exploded", median(norms) if norms else None, None)
    limit = EXPLODING * median(history)
    return item("gradients-not-exploded", median(norms), limit, passed=median(norms) <= limit)


def reaching(smallest: list[float], largest: list[float]) -> dict[str, Any]:
    """Whether the layer with the smallest gradient gets any, compared with the one with the largest."""
    shares = [low / high for low, high in zip(smallest, largest, strict=False) if high > 0 and math.isfinite(high)]
    if not shares:
        return item("gradients-reach-all-layers", None, REACH)
    return item("gradients-reach-all-layers", median(shares), REACH, passed=median(shares) >= REACH)


def constant(spreads: list[float], highs: list[float], lows: list[float]) -> dict[str, Any]:
    """How much the output differs from sample to sample, over its size."""
    shares = [
        spread / size
        for spread, high, low in zip(spreads, highs, lows, strict=False)
        if math.isfinite(spread) and (size := max(abs(high), abs(low))) > 0
    ]
    if not shares:
        return item("output-not-constant", None, CONSTANT)
    return item("output-not-constant", median(shares), CONSTANT, passed=median(shares) >= CONSTANT)


def smooth(losses: list[float], rates: list[float]) -> dict[str, Any]:
    """Whether the loss stays down while the learning rate rises: the worst fifth of the epoch over the first one.

    Unknown without a warm-up.
    """
    rising = len(rates) > 1 and rates[-1] > rates[0]
    fifth = len(losses) // 5
    if not rising or fifth < 4 or not all(math.isfinite(loss) for loss in losses):
        return item("warm-up-smooth", None, None)
    parts = [losses[at * fifth : (at + 1) * fifth] for at in range(5)]
    middles = [median(part) for part in parts]
    noise = median(abs(loss - middles[0]) for loss in parts[0])
    limit = middles[0] + 4 * noise + 0.05 * abs(middles[0])
    return item("warm-up-smooth", max(middles), limit, passed=max(middles) <= limit)


GAUGE = Checklist
