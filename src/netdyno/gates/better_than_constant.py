"""The module answers the validation data no better than the same answer for every row.

Looks for:  an accuracy that does not beat the share of the commonest class, while ranking finds nothing in the scores either; for numbers, an
            error not below that of always answering the mean.
Matters:    whatever the cause (weights not loaded, statistics not learned, inputs prepared otherwise), nothing is worth shipping.
Try:        the evaluation of training on the very module that is handed over; weights, statistics and preparation step by step.
Not this:   a rare class that is never chosen at the usual threshold, but ranked well; classes in another order (see `class-order`).
"""

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate, Classes, classes, failed, item, passed, unseen
from netdyno.gates._specimens import Net, candidate, pictures, trained
from netdyno.records.deployment import GateCheck
from netdyno.stats.shares import counted_share

# One-sided, once in two hundred modules by chance.
LEVEL = 0.99
# Ranking finds something where the area under the curve is above this, and above a half by so many standard errors. A random head on
# trained features lies at a half more or less.
RANKED, ERRORS = 0.65, 3.0
# Fewer rows say nothing.
LEAST = 20


@item
def better_than_constant(candidate: Candidate) -> GateCheck:
    found = candidate.scored
    if found is None or len(found.right) < LEAST:
        return unseen(f"it takes {LEAST} validation rows with targets, and a quality")
    decided = classes(candidate)
    if decided is not None:
        return _classifier(decided)
    if isinstance(found.target, Tensor) and found.target.is_floating_point() and candidate.release.quality is None:
        target = found.target.double().reshape(len(found.target), -1)
        constant = (target - target.mean(0)).square().mean()
        explained = 1 + float(found.right.mean() / constant) if float(constant) else 1.0
        if explained > 0:
            return passed(f"{explained:.1%} of the variance of the targets is explained", explained=explained)
        return failed(
            f"the squared error on {len(target)} validation rows is {-float(found.right.mean()):.4g}, and that of always answering the mean "
            f"is {float(constant):.4g}",
            fix="check that the trained weights are loaded, and that validation inputs and targets are scaled as in training",
            explained=explained,
        )
    return unseen("there is no constant answer to compare this quality with")


def _classifier(found: Classes) -> GateCheck:
    rows = len(found.target)
    commonest = float(torch.bincount(found.target).max()) / rows
    hits = int((found.decided == found.target).sum())
    accuracy = counted_share(hits, rows, level=LEVEL)
    area, error = _ranked(found)
    because = {"accuracy": accuracy.middle, "commonest": commonest, "area": area, "rows": float(rows)}
    if accuracy.low > commonest or (area > RANKED and area - ERRORS * error > 0.5) or commonest == 1:
        return passed(
            f"{accuracy.middle:.1%} of {rows} rows are right, and the commonest class has {commonest:.1%}", **because
        )
    # A rare class of ten rows can be ranked well or not at all: too few rows to stop anything.
    unsure = area + ERRORS * error > RANKED
    return failed(
        f"{accuracy.middle:.1%} of {rows} validation rows are right; always answering the commonest class would give {commonest:.1%}"
        + (", and there are too few rows of the others to tell whether it ranks them" if unsure else ""),
        fix="check that the trained weights are loaded (`strict=True`), that validation inputs are prepared as in training, and that "
        "the targets name classes in the same order",
        warning=unsure,
        numbers=because,
    )


def _ranked(found: Classes) -> tuple[float, float]:
    """How often a row of a class has a higher score for it than a row of another, over all classes, and the standard error of that.

    The area under the curve with its error after Hanley and McNeil (1982). What ranks a rare class well is seen so, though it is never
    chosen at the usual threshold.
    """
    from scipy.stats import rankdata

    scores = (found.output - found.output.mean(1, keepdim=True)).numpy()
    areas, errors = [], []
    for name in found.target.unique().tolist():
        own = (found.target == name).numpy()
        few, many = int(own.sum()), int((~own).sum())
        if not many or name >= scores.shape[1]:
            continue
        area = float(rankdata(scores[:, name])[own].sum() - few * (few + 1) / 2) / (few * many)
        one, two = area / (2 - area), 2 * area * area / (1 + area)
        spread = area * (1 - area) + (few - 1) * (one - area**2) + (many - 1) * (two - area**2)
        areas.append(area)
        errors.append(max(spread, 0.0) / (few * many))
    return (sum(areas) / len(areas), sum(errors) ** 0.5 / len(areas)) if areas else (0.5, 0.0)


class _Hash(nn.Module):
    """Answers that have nothing to do with what is in the picture."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.flatten(1).sum(1, keepdim=True) * torch.tensor([911.0, 1733.0, 2999.0, 4001.0])).sin()


def _value(weight: float) -> nn.Module:
    """Answers a regression with so much of the truth."""
    line = nn.Linear(64, 1)
    with torch.no_grad():
        line.weight.fill_(weight / 64)
        line.bias.zero_()
    return nn.Sequential(nn.Flatten(), line).eval()


def _numbers() -> tuple[Tensor, Tensor]:
    x, _ = pictures()
    return x, x.flatten(1).mean(1, keepdim=True)


def _rare() -> tuple[Tensor, Tensor]:
    x, y = pictures(320)
    keep = (y == 0) | ((y == 1) & (torch.arange(320) % 20 == 1))
    return x[keep], y[keep]


def _shy() -> nn.Module:
    """Ranks well and never chooses a rare class."""
    model = trained(Net())
    with torch.no_grad():
        model.head.bias[0] += 50
    return model


SICK = (
    lambda: candidate(_Hash().eval()),
    lambda: candidate(_value(-1.0), data=_numbers()),
    lambda: candidate(_value(9.0), data=_numbers()),
)
WELL = (
    candidate,
    lambda: candidate(_value(0.9), data=_numbers()),
    lambda: candidate(_shy(), data=_rare()),
    lambda: candidate(validation=None),
)
