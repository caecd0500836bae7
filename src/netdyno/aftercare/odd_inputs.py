"""Scores how far a row lies from what the model was trained on, by Mahalanobis distance in its last features (ledger A-203).

Lee et al. 2018: class means, one covariance shared by all classes. Written here, because pytorch-ood (0.4, Apache 2.0), which has the
same score among many, requires torchvision.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from netdyno.aftercare._reference import ROWS, evaluating
from netdyno.errors import NetdynoError
from netdyno.records.measured import Interval
from netdyno.stats.shares import counted_share

Rows = tuple[Tensor, ...]
# The share of familiar rows that a threshold accepts: where FPR at 95 % TPR is read off.
ACCEPTED = 0.95


class Judged(NamedTuple):
    """How well scores tell odd rows from familiar ones. `auroc` is the chance that an odd row scores higher.

    `fpr` is the share of odd rows that are accepted at the threshold that accepts 95 % of the familiar ones ("FPR at 95 % TPR", familiar
    rows being the positives).
    """

    auroc: Interval
    fpr: Interval
    threshold: float
    familiar: int
    odd: int


@dataclass(frozen=True, kw_only=True)
class OddScore:
    """A fitted score: class means, and the factor of the shared covariance. `shrinkage` is how much of it was made round."""

    layer: str
    means: Tensor
    factor: Tensor
    shrinkage: float
    threshold: float
    rows: int

    def __call__(self, model: nn.Module, inputs: Rows) -> Tensor:
        """The squared distance of each row to the nearest class; higher is odder."""
        return self.of(features(model, inputs, layer=self.layer))

    def of(self, found: Tensor) -> Tensor:
        """The same from features that are there already."""
        apart = found.double()[:, None] - self.means
        whitened = torch.linalg.solve_triangular(self.factor, apart.flatten(0, 1).T, upper=False)
        return whitened.square().sum(0).reshape(len(found), -1).amin(1)

    def odd(self, scores: Tensor) -> Tensor:
        """Which rows are refused at the threshold that was fitted."""
        return scores > self.threshold


def last_layer(model: nn.Module) -> str:
    """The name of the last linear layer, whose inputs are the last features. Raises NetdynoError where there is none."""
    found = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not found:
        raise NetdynoError(
            "cannot find the last features", because="the model has no linear layer",
            hint='name the layer whose input they are: `layer="head"`',
        )  # fmt: skip
    return found[-1]


def features(model: nn.Module, inputs: Rows, *, layer: str | None = None) -> Tensor:
    """What goes into a layer, one row of numbers for each row of input: in eval mode, without gradients, leaving the model as it was."""
    name = layer if layer is not None else last_layer(model)
    held: list[Tensor] = []
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, given: held.append(given[0].detach()))
    try:
        with evaluating(model), torch.no_grad():
            for at in range(0, len(inputs[0]), ROWS):
                model(*(part[at : at + ROWS] for part in inputs))
    finally:
        hook.remove()
    return torch.cat([part.reshape(len(part), -1) if part.dim() < 3 else part.flatten(2).mean(2) for part in held])


def fit(
    model: nn.Module,
    inputs: Rows,
    labels: Tensor,
    *,
    layer: str | None = None,
    shrinkage: float | None = None,
    held_out: float = 0.3,
    accepted: float = ACCEPTED,
    seed: int = 0,
) -> OddScore:
    """Fit means and covariance on some rows, and the threshold on the rest: on its own rows a distance is too small.

    `shrinkage` None: as much as Ledoit and Wolf (2004) find best. Raises NetdynoError for too few rows of a class.
    """
    name = layer if layer is not None else last_layer(model)
    found = features(model, inputs, layer=name).double()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    cut = len(labels) - int(held_out * len(labels))
    learned, kept = order[:cut], order[cut:]
    classes = labels[learned].unique()
    counts = {int(one): int((labels[learned] == one).sum()) for one in classes}
    few = min(counts, key=lambda one: counts[one])
    if counts[few] < 2 or not len(kept):
        raise NetdynoError(
            f"cannot fit distances from {counts[few]} rows of class {few}", because="a spread takes two rows at least",
            hint="give more rows of every class",
        )  # fmt: skip
    means = torch.stack([found[learned][labels[learned] == one].mean(0) for one in classes])
    residuals = found[learned] - means[torch.searchsorted(classes, labels[learned])]
    covariance, used = _shrunk(residuals, len(classes), shrinkage)
    score = OddScore(
        layer=name, means=means, factor=torch.linalg.cholesky(covariance), shrinkage=used, threshold=0.0, rows=cut
    )
    return _with_threshold(score, score.of(found[kept]), accepted)


def _with_threshold(score: OddScore, familiar: Tensor, accepted: float) -> OddScore:
    from dataclasses import replace

    return replace(score, threshold=float(_quantile(familiar, accepted)))


def _shrunk(residuals: Tensor, classes: int, shrinkage: float | None) -> tuple[Tensor, float]:
    """The covariance of the residuals, drawn towards a round one: (1 - s) S + s tr(S)/p I."""
    rows, width = residuals.shape
    freedom = max(1, rows - classes)
    plain = residuals.T @ residuals / freedom
    size = plain.diagonal().mean()
    round_ = size * torch.eye(width, dtype=residuals.dtype)
    if shrinkage is None:
        spread = (plain - round_).square().sum()
        # The mean squared error of S as an estimate of the covariance, from the scatter of the rows' own outer products.
        error = (residuals.square().sum(1).square().sum() / rows - plain.square().sum()) / rows
        shrinkage = 1.0 if not spread else float((error / spread).clamp(0, 1))
    # Features that never vary make even that singular: nothing is divided by nothing.
    floor = 1e-9 * float(size) + 1e-30
    return (1 - shrinkage) * plain + shrinkage * round_ + floor * torch.eye(width, dtype=plain.dtype), shrinkage


def judge(familiar: Tensor, odd: Tensor, *, accepted: float = ACCEPTED, level: float = 0.95) -> Judged:
    """AUROC with its interval (Hanley and McNeil 1982), and FPR at 95 % TPR with the interval of a counted share."""
    threshold = float(_quantile(familiar, accepted))
    return Judged(
        auroc=_auroc(familiar.double(), odd.double(), level),
        fpr=counted_share(int((odd <= threshold).sum()), len(odd), level=level),
        threshold=threshold, familiar=len(familiar), odd=len(odd),
    )  # fmt: skip


def _quantile(scores: Tensor, share: float) -> Tensor:
    """The smallest score that at least this share of them do not exceed."""
    ordered = scores.sort().values
    return ordered[min(len(ordered), math.ceil(share * len(ordered) - 1e-9)) - 1]


def _auroc(familiar: Tensor, odd: Tensor, level: float) -> Interval:
    from statistics import NormalDist

    ordered = familiar.sort().values
    below = torch.searchsorted(ordered, odd, right=False).double()
    equal = torch.searchsorted(ordered, odd, right=True).double() - below
    area = float((below + equal / 2).mean()) / len(familiar)
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (len(odd) - 1) * (first - area**2) + (len(familiar) - 1) * (second - area**2)
    half = NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(max(0.0, variance) / (len(familiar) * len(odd)))
    return Interval(middle=area, low=max(0.0, area - half), high=min(1.0, area + half), level=level)


# ---------------------------------------------------------------- what is done about it


class Alarm(NamedTuple):
    """More odd rows than there should be: `odd` of the last `rows`, of which `expected` would be odd by the threshold alone."""

    odd: int
    rows: int
    expected: float
    chance: float
    held_back: int
    says: str


@dataclass(kw_only=True)
class Trigger:
    """Asks for a recalibration, or a person, when odd rows come more often than the threshold lets through, and not too often.

    `error` is the chance of an alarm in a window that is as odd as expected. After one, `least_gap_s` must pass; what would have
    been raised meanwhile is counted in the next one's `held_back`.
    """

    expected: float = 1 - ACCEPTED
    window: int = 200
    error: float = 1e-4
    least_gap_s: float = 3600.0
    clock: Callable[[], float] = time.monotonic
    _odd: int = field(default=0, repr=False)
    _seen: int = field(default=0, repr=False)
    _raised: float | None = field(default=None, repr=False)
    _held_back: int = field(default=0, repr=False)

    def saw(self, odd: Sequence[bool] | Tensor) -> Alarm | None:
        """Tell it of rows, in the order they came; gives an alarm when one is due. Windows don't overlap, so each spends its own error."""
        raised: Alarm | None = None
        for one in odd:
            self._odd += bool(one)
            self._seen += 1
            if self._seen == self.window:
                raised = self._closed() or raised
        return raised

    def _closed(self) -> Alarm | None:
        from scipy.stats import binom

        odd, self._odd, self._seen = self._odd, 0, 0
        chance = float(binom.sf(odd - 1, self.window, self.expected))
        if chance > self.error:
            return None
        now = self.clock()
        if self._raised is not None and now - self._raised < self.least_gap_s:
            self._held_back += 1
            return None
        held_back, self._held_back, self._raised = self._held_back, 0, now
        says = "; ".join(_alarm(odd, self.window, self.expected, chance, held_back))
        return Alarm(odd, self.window, self.expected * self.window, chance, held_back, says)


def _alarm(odd: int, rows: int, expected: float, chance: float, held_back: int) -> Iterator[str]:
    yield f"{odd} of {rows} rows are odd, where {expected * rows:.0f} would be (chance {chance:.1e})"
    if held_back:
        yield f"{held_back} alarms were held back since the last"
    yield "look at some of them before anything adapts to them: a broken sensor is odd as well"
