"""What answers are worth to those who pay for them: a cost for each kind of mistake, and a queue for a person's review (ledger A-202)."""

from collections.abc import Sequence
from typing import NamedTuple

from netdyno.errors import NetdynoError


class Gate(NamedTuple):
    """What a way to decide costs for one sample: mistakes, and reviews by a person. `queue` is the share that is reviewed."""

    cost: float
    queue: float


def confusion(given: Sequence[int], answered: Sequence[int], classes: int) -> list[list[int]]:
    """Counts by true class (row) and answer (column)."""
    table = [[0] * classes for _ in range(classes)]
    for true, said in zip(given, answered, strict=True):
        table[true][said] += 1
    return table


def cost(table: Sequence[Sequence[float]], costs: Sequence[Sequence[float]]) -> float:
    """The mean cost of an answer; `costs[i][j]` is that of answering j where i is true.

    >>> cost([[90, 10], [0, 100]], [[0, 1], [20, 0]])
    0.05
    """
    if [len(row) for row in table] != [len(row) for row in costs]:
        raise NetdynoError(
            f"cannot weigh answers of {len(table)} classes",
            because=f"the costs are given for {len(costs)}",
            hint="a cost matrix has a row for each true class and a column for each answer",
        )
    total = sum(map(sum, table))
    spent = sum(
        n * price for row, prices in zip(table, costs, strict=True) for n, price in zip(row, prices, strict=True)
    )
    return spent / total if total else 0.0


def with_review(
    given: Sequence[int],
    probabilities: Sequence[Sequence[float]],
    costs: Sequence[Sequence[float]],
    *,
    review: float,
) -> Gate:
    """What deciding costs where a person reviews, at `review` each, whatever the model's own expectation of the mistake costs more.

    A reviewed sample is answered rightly. For the rest the answer with the lowest expected cost is given.
    """
    spent, reviewed = 0.0, 0
    for true, shares in zip(given, probabilities, strict=True):
        expected = [sum(p * row[answer] for p, row in zip(shares, costs, strict=True)) for answer in range(len(costs))]
        answer = min(range(len(expected)), key=expected.__getitem__)
        if expected[answer] > review:
            reviewed += 1
            spent += review
        else:
            spent += costs[true][answer]
    return Gate(spent / len(given), reviewed / len(given)) if given else Gate(0.0, 0.0)


def returned(saved_per_sample: float, *, samples: float, spent: float) -> float:
    """The return on an investment: what is won over what was spent, less one.

    >>> returned(0.5, samples=1000, spent=100.0)
    4.0
    """
    if spent <= 0:
        raise ValueError("a return needs something that was spent")
    return saved_per_sample * samples / spent - 1
