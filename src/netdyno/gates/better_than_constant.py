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
# Standard errors by which the balanced score must lie above chance.
ERRORS = 3.0
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
    balanced, error = _balanced(found)
    width = found.output.shape[1]
    because = {"accuracy": accuracy.middle, "commonest": commonest, "balanced": balanced, "rows": float(rows)}
    if accuracy.low > commonest or balanced - ERRORS * error > 1 / width or commonest == 1:
        return passed(
            f"{accuracy.middle:.1%} of {rows} rows are right, and the commonest class has {commonest:.1%}", **because
        )
    return failed(
        f"{accuracy.middle:.1%} of {rows} validation rows are right; always answering the commonest class would give {commonest:.1%}",
        fix="check that the trained weights are loaded (`strict=True`), that validation inputs are prepared as in training, and that "
        "the targets name classes in the same order",
        numbers=because,
    )


def _balanced(found: Classes) -> tuple[float, float]:
    """The mean share of right rows per class when every score is set to mean 0 and deviation 1, and its standard error.

    What ranks a rare class well is seen so, though it is never chosen at the usual threshold.
    """
    scores = (found.output - found.output.mean(0)) / found.output.std(0, correction=0).clamp_min(1e-12)
    right = (scores.argmax(1) == found.target).double()
    recalls, errors = [], []
    for name in found.target.unique():
        own = right[found.target == name]
        recalls.append(float(own.mean()))
        # Half a hit and half a miss are added, or a class of one row would have no error.
        share = (float(own.sum()) + 0.5) / (len(own) + 1)
        errors.append(share * (1 - share) / len(own))
    return sum(recalls) / len(recalls), (sum(errors) ** 0.5) / len(recalls)


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
