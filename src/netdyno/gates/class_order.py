"""The module and the validation data number the classes in another order, or the names are not as many as the answers.

Looks for:  a confusion that is a permutation: rows of one class are nearly all answered with one other; more or fewer `classes` than scores.
Matters:    clients are told another name than the one that was meant; the score looks like chance (fault bench T10).
Try:        save the mapping of names to numbers beside the weights, and use it on both sides.
Not this:   two classes that are mixed up with each other now and then.
"""

import numpy as np
import torch

from netdyno.gates._base import Candidate, answers, classes, failed, item, passed, unseen
from netdyno.gates._specimens import Net, candidate, pictures, trained
from netdyno.records.deployment import GateCheck

# A class has moved when most of its rows are answered with one other, and hardly any with its own.
MOST, OWN = 0.5, 0.25
# Of the rows of all moved classes: a model that was good before they were renumbered.
PURE = 0.7
# Rows of a class from which it can be told.
LEAST = 5


@item
def class_order(candidate: Candidate) -> GateCheck:
    named = candidate.release.classes
    output = answers(candidate.model.eval(), candidate.example)[0]
    width = output.shape[-1] if output.dim() == 2 else 0
    if named and width > 1 and len(named) != width:
        return failed(
            f"`classes` names {len(named)}, and the module gives {width} scores",
            fix="name every class in the order of the scores",
            classes=float(len(named)),
            scores=float(width),
        )
    found = classes(candidate)
    if found is None:
        return unseen("it takes a classifier, and validation data with whole-number targets")
    moved = _moved(found.decided, found.target, max(width, 2))
    accuracy = float((found.decided == found.target).float().mean())
    if len(moved) < 2:
        return passed("no class is answered as another", accuracy=accuracy)
    shown = ", ".join(f"{_name(named, a)} as {_name(named, b)}" for a, b in list(moved.items())[:4])
    return failed(
        f"{len(moved)} classes of the validation data are answered as others: {shown}{' …' if len(moved) > 4 else ''}",
        fix="number the classes as in training: save the mapping of names to numbers with the weights, and read it on both sides",
        accuracy=accuracy,
        moved=float(len(moved)),
    )


def _moved(decided: torch.Tensor, target: torch.Tensor, width: int) -> dict[int, int]:
    """Classes of the data, with the class they are answered as, where that is another."""
    from scipy.optimize import linear_sum_assignment

    count = max(width, int(target.max()) + 1, int(decided.max()) + 1)
    confusion = np.zeros((count, count))
    np.add.at(confusion, (target.numpy(), decided.numpy()), 1)
    rows = confusion.sum(1)
    shares = confusion / np.maximum(rows, 1)[:, None]
    true, answered = linear_sum_assignment(-shares)
    moved = {
        int(a): int(b)
        for a, b in zip(true, answered, strict=True)
        if a != b and rows[a] >= LEAST and shares[a, b] > MOST and shares[a, a] < OWN
    }
    # Another numbering changes places within itself; a head that was never trained throws classes about.
    closed = set(moved) == set(moved.values())
    purity = np.mean([shares[a, b] for a, b in moved.items()]) if moved else 0.0
    return moved if closed and purity > PURE else {}


def _name(named: tuple[str, ...], at: int) -> str:
    return f"`{named[at]}`" if at < len(named) else str(at)


def _reordered(order: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = pictures()
    return x, torch.tensor(order)[y]


SICK = (
    lambda: candidate(data=_reordered([2, 0, 3, 1])),
    lambda: candidate(data=_reordered([1, 0, 2, 3]), classes=("cat", "dog", "fox", "owl")),
    lambda: candidate(classes=("cat", "dog", "fox")),
)
WELL = (
    candidate,
    lambda: candidate(classes=("cat", "dog", "fox", "owl")),
    lambda: candidate(trained(Net(), steps=3)),
)
