"""How long gradients are before they are clipped, and what each threshold would cut.

Three rules are compared: a fixed norm (1, or 0.5, 2, 5), nine tenths of the norm of the last layer's weights, and a percentile of the norms that
were observed. The first two know nothing of the model's gradients: they may cut every step or none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup
from netdyno.knobs._layers import Weighted
from netdyno.knobs._optimizers import gradient_norm
from netdyno.learning.run import train
from netdyno.stats.shares import counted_share

PERCENTILE = 90.0
FIXED = (0.5, 1.0, 2.0, 5.0)
OF_LAST_LAYER = 0.9
# Usual advice calls a norm above 10 alarming.
ALARMING = 10.0
# The first updates from fresh weights have norms of their own.
UNSETTLED = 0.1
# A percentile of fewer norms is the length of single batches.
LEAST_SEEN = 30
# The 99th percentile beyond so many medians: rare batches would throw the weights far.
HEAVY_TAIL = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A rule and what it would have cut: `rate` is the share of updates, `kept` the mean share of the length that stays over all."""

    rule: str
    value: float
    rate: float
    kept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipAdvice:
    """What the norms say. `recommended` is the percentile's threshold; `needed` whether the norms have a tail to be cut at all."""

    norms: tuple[float, ...]
    thresholds: tuple[Threshold, ...]
    recommended: float
    needed: bool
    alarms: int
    says: str


def observed(setup: Setup, *, seed: int = 1, updates: int | None = None) -> tuple[tuple[float, ...], float]:
    """The norms of a run before clipping, and the norm of the last layer's weights at its end. Raises NetdynoError where it breaks."""
    norms: list[float] = []
    last: list[float] = []

    def look(model: nn.Module, _: Any) -> None:
        norms.append(float(gradient_norm(model.parameters())))
        last[:] = [last_layer_norm(model)]

    # It looks before anything that the setup clips.
    watched = replace(setup, before_step=(look, *setup.before_step), updates=updates or setup.updates)
    run = train(watched, seed=seed, stage="optim", knob="clip", evaluations=1)
    if not norms:
        raise NetdynoError(
            "cannot observe gradients",
            because=run.failed or "no update was made",
            hint="`netdyno doctor` says what is wrong",
        )
    return tuple(norms), last[0]


def last_layer_norm(model: nn.Module) -> float:
    """The norm of the weights of the layer that was declared last; 0 where there is none."""
    layers = [module for module in model.modules() if isinstance(module, Weighted)]
    return float(layers[-1].weight.detach().norm()) if layers else 0.0


def advised(norms: Sequence[float], last_layer: float = 0.0, *, percentile: float = PERCENTILE) -> ClipAdvice:
    """What to clip at, by norms that were observed. Pure. Raises NetdynoError for too few of them."""
    alarms = sum(norm > ALARMING or not np.isfinite(norm) for norm in norms)
    settled = [norm for norm in norms[round(UNSETTLED * len(norms)) :] if np.isfinite(norm)]
    if len(settled) < LEAST_SEEN:
        raise NetdynoError(
            f"cannot tell a threshold from `{len(settled)}` norms",
            because=f"a percentile needs {LEAST_SEEN} of them, the first tenth left out",
            hint="observe more updates",
        )
    chosen = float(np.percentile(settled, percentile))
    rules = [(f"percentile {percentile:.0f}", chosen), *((f"norm {value:g}", value) for value in FIXED)]
    if last_layer > 0:
        rules.append((f"{OF_LAST_LAYER:g} x norm of the last layer", OF_LAST_LAYER * last_layer))
    thresholds = tuple(_threshold(rule, value, settled) for rule, value in rules)
    middle, top = float(np.median(settled)), float(np.percentile(settled, 99))
    needed = bool(top > HEAVY_TAIL * middle) or len(settled) < len(norms) - round(UNSETTLED * len(norms))
    return ClipAdvice(
        norms=tuple(norms), thresholds=thresholds, recommended=chosen, needed=needed, alarms=alarms,
        says=_says(thresholds, settled, middle=middle, top=top, needed=needed),
    )  # fmt: skip


def _threshold(rule: str, value: float, norms: Sequence[float]) -> Threshold:
    cut = [min(1.0, value / norm) if norm > 0 else 1.0 for norm in norms]
    return Threshold(rule=rule, value=value, rate=sum(share < 1 for share in cut) / len(cut), kept=sum(cut) / len(cut))


def _says(thresholds: Sequence[Threshold], norms: Sequence[float], *, middle: float, top: float, needed: bool) -> str:
    first, usual = thresholds[0], next(one for one in thresholds if one.rule == "norm 1")
    share = counted_share(round(usual.rate * len(norms)), len(norms))
    said = f"norms are {middle:.3g} in the middle and {top:.3g} in the 99th of a hundred"
    if not needed:
        said += ": no tail to be cut"
    said += f"; {first.value:.3g} cuts {first.rate:.0%} of the updates, the usual 1 cuts {usual.rate:.0%}"
    said += f" ({share.low:.0%} to {share.high:.0%})"
    if usual.rate > 0.5:
        said += ", which is a lower rate under another name"
    return said
