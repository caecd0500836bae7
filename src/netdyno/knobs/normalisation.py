"""Normalise by groups of channels instead of by the batch, or by the batch where nothing normalises.

Helps:      small batches, in which the mean of a batch says little about the data: a group is counted within one sample.
Costs:      a batch norm can be folded into the convolution before it when the model is used, a group norm cannot.
Rule:       what counts is the values that one channel's mean is taken over, batch times pixels, not the batch alone: a batch of 8 over
            14 x 14 pixels is steady (a running variance within 3 %), a batch of 8 rows is not (43 %).
Not this:   `track_running_stats=False` makes every answer depend on its neighbours in the batch: for debugging only. SyncBatchNorm
            needs several processes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import BatchNorm, Norm, Weighted, broken_by, has, put, ran, swapped, with_model
from netdyno.records.study import Stage

KINDS = ("group", "layer", "batch")
GROUPS = 8  # 32 in Wu & He 2018, for layers of 64 to 2048 channels; small models have fewer

# The worst of some 64 channels within 100 updates, of which ten or so are independent, lies 3.5 deviations from the middle.
WORST = 3.5
# A running variance that strays by a tenth scales the answer by a twentieth: as much as a step of training does.
STEADY = 0.10


@dataclass(frozen=True, slots=True)
class Normalisation:
    """`kind`: "group", "layer" or "batch". The first two replace every batch norm; a model without any norm gets one after each layer."""

    kind: str = "group"

    stage: ClassVar[Stage] = "arch"
    reason: ClassVar[str] = "decides over which values the mean and spread are taken that every channel is divided by"
    asks: ClassVar[str] = "over what should activations be normalised?"
    effort_min: ClassVar[float] = 10.0
    order: ClassVar[int] = 10

    def refuses(self, setup: Setup) -> str | None:
        if self.kind not in KINDS:
            return f"`{self.kind}` is none of {', '.join(KINDS)}"
        if not has(setup, BatchNorm):
            if has(setup, Norm):
                return "the model normalises already, and not by the batch"
            if not _bare(setup):
                return "the model has no layer between two others that a norm could stand behind"
        elif self.kind == "batch":
            return "the model normalises by the batch already"
        return broken_by(setup, self._change(setup))

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(one for one in map(Normalisation, KINDS) if one.refuses(setup) is None)

    def turned(self, setup: Setup) -> Setup:
        return with_model(setup, self._change(setup))

    def code(self) -> str:
        if self.kind == "batch":
            return "norm = torch.nn.BatchNorm2d(channels)  # behind a convolution; BatchNorm1d behind a linear layer"
        groups = "1" if self.kind == "layer" else f"math.gcd(channels, {GROUPS})"
        return f"norm = torch.nn.GroupNorm({groups}, channels)  # in place of torch.nn.BatchNorm2d(channels)"

    def _change(self, setup: Setup) -> Callable[[nn.Module], nn.Module]:
        groups = 1 if self.kind == "layer" else GROUPS
        if has(setup, BatchNorm):
            return lambda model: swapped(model, BatchNorm, lambda norm: grouped(norm, groups))
        names = _bare(setup)
        return lambda model: _normed(model, names, None if self.kind == "batch" else groups)


def _bare(setup: Setup) -> tuple[str, ...]:
    """The layers that a norm can stand behind: all but the last, and linear ones whose output has only samples and features."""
    layers = ran(setup, Weighted)
    return tuple(name for name, layer, _, got in layers[:-1] if len(got) == 2 or not isinstance(layer, nn.Linear))


def _normed(model: nn.Module, names: tuple[str, ...], groups: int | None) -> nn.Module:
    for name in names:
        layer: Any = model.get_submodule(name)
        norm = _batch_norm(layer)
        put(model, name, nn.Sequential(layer, norm if groups is None else grouped(norm, groups)))
    return model


def _batch_norm(layer: Any) -> nn.Module:
    if isinstance(layer, nn.Linear):
        return nn.BatchNorm1d(layer.out_features)
    kind = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}[len(layer.kernel_size)]
    return kind(layer.out_channels)


def grouped(norm: Any, groups: int) -> nn.Module:
    """The group norm that takes the place of a batch norm: the most groups up to `groups` that divide its channels."""
    channels = norm.num_features
    return nn.GroupNorm(math.gcd(channels, groups), channels, eps=norm.eps, affine=norm.affine)


def strays(values: float, momentum: float = 0.1) -> float:
    """How far the worst of a layer's running variances strays within 100 updates, as a share of the true one, for normal values.

    A batch's variance over n values has the relative deviation sqrt(2 / (n - 1)); the moving average leaves
    sqrt(m / (2 - m)) of it.

    >>> round(strays(8), 2), round(strays(8 * 14 * 14), 2)
    (0.43, 0.03)
    """
    return WORST * math.sqrt(2 / max(1.0, values - 1) * momentum / (2 - momentum))


def values_per_channel(setup: Setup) -> float | None:
    """Over how many values the batch norm with the fewest takes its mean in training; None without a batch norm."""
    found = [setup.batch_size * math.prod(shape[2:]) for _, _, shape, _ in ran(setup, BatchNorm)]
    return min(found, default=None)


def advice(setup: Setup) -> str:
    """What the rule says, in a sentence. It is tried, not believed."""
    values = values_per_channel(setup)
    if values is None:
        return "there is no batch norm"
    amount = f"a running variance strays by up to {strays(values):.0%} with {values:.0f} values per channel and batch"
    return f"{amount}: try group norm" if strays(values) > STEADY else f"{amount}: batch norm is steady here"
