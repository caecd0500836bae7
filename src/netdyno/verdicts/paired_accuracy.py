"""Whether what was made of a module answers as well as the module: the same rows, paired, with an interval and a decision."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from netdyno.records.deployment import Accuracy
from netdyno.records.measured import Interval
from netdyno.stats.proportions import MOST_ROWS, mcnemar, paired_difference, rows_to_tell
from netdyno.stats.spread import t_interval, t_quantile

Decision = Literal["holds", "broken", "cannot tell"]

# A t interval of fewer differences than these says more of the normal distribution than of the data.
FEWEST = 10
# Answers under another numbering agree with the module's on nearly every row once they are numbered back.
RENUMBERED = 0.9


def judged(
    control: Sequence[float], treatment: Sequence[float], *, limit: float, level: float = 0.95, says: str = ""
) -> Accuracy:
    """The paired look at quality by row: right and wrong by McNemar and Tango's interval, graded quality by Student's.

    Graded quality that lies in 0…1 is compared as it is; any other, such as minus a squared error, relative to the mean size of the
    module's own. A row that the candidate answers with no number counts as lost.
    """
    if len(control) != len(treatment) or not control:
        raise ValueError(f"{len(control)} rows of the module and {len(treatment)} of the candidate cannot be paired")
    if not all(map(math.isfinite, control)):
        raise ValueError("the module's own quality is not a number on some rows")
    if {*control, *treatment} <= {0.0, 1.0}:
        return _counted(control, treatment, limit=limit, level=level, says=says)
    return _graded(control, treatment, limit=limit, level=level, says=says)


def _counted(
    control: Sequence[float], treatment: Sequence[float], *, limit: float, level: float, says: str
) -> Accuracy:
    rows = len(control)
    lost = sum(mine > theirs for mine, theirs in zip(control, treatment, strict=True))
    won = sum(mine < theirs for mine, theirs in zip(control, treatment, strict=True))
    drop = paired_difference(lost, won, rows, level=level)
    decision = decided(drop, limit)
    needs = rows_to_tell(lost, won, rows, limit, level=level) if decision == "cannot tell" else None
    return Accuracy(
        rows=rows,
        control=sum(control) / rows,
        treatment=sum(treatment) / rows,
        lost=lost,
        won=won,
        drop=drop,
        p_value=mcnemar(lost, won),
        limit=limit,
        decision=decision,
        needs=needs,
        says=_joined(f"{lost} rows lost and {won} won of {rows}: {_words(drop, limit, decision, needs)}", says),
    )


def _graded(control: Sequence[float], treatment: Sequence[float], *, limit: float, level: float, says: str) -> Accuracy:
    rows = len(control)
    mean = sum(control) / rows
    bad = sum(not math.isfinite(one) for one in treatment)
    if bad:
        drop = paired_difference(bad, 0, rows, level=level)
        told = f"{bad} of {rows} rows are answered with no number"
        return Accuracy(
            rows=rows, control=mean, treatment=mean, lost=bad, drop=drop, limit=limit, decision="broken", says=told
        )
    within = all(0 <= one <= 1 for one in (*control, *treatment))
    unit = 1.0 if within else sum(map(abs, control)) / rows or 1.0
    lost = [(mine - theirs) / unit for mine, theirs in zip(control, treatment, strict=True)]
    drop = t_interval(lost, level, unbounded=1e6)
    same = not any(lost)
    decision: Decision = "cannot tell" if rows < FEWEST and not same else decided(drop, limit)
    needs = _graded_rows(lost, drop.middle, limit, level) if decision == "cannot tell" else None
    what = "mean quality" if within else "mean quality, of its own size,"
    return Accuracy(
        rows=rows,
        control=mean,
        treatment=sum(treatment) / rows,
        lost=sum(one > 0 for one in lost),
        won=sum(one < 0 for one in lost),
        drop=drop,
        limit=limit,
        decision=decision,
        needs=needs,
        says=_joined(f"{what} on {rows} rows: {_words(drop, limit, decision, needs)}", says),
    )


def decided(drop: Interval, limit: float) -> Decision:
    """Holds when the whole interval lies below the limit, broken when it lies above, otherwise it cannot be told.

    >>> decided(Interval(middle=0.001, low=-0.002, high=0.004), 0.005)
    'holds'
    """
    if drop.high <= limit:
        return "holds"
    return "broken" if drop.low > limit else "cannot tell"


def _graded_rows(lost: Sequence[float], drop: float, limit: float, level: float) -> int | None:
    """Rows until half the interval is as wide as the distance to the limit, at the scatter seen."""
    rows = len(lost)
    distance = abs(limit - drop)
    if rows < 2 or not distance:
        return None
    deviation = math.sqrt(sum((one - drop) ** 2 for one in lost) / (rows - 1))
    needed = (t_quantile((1 + level) / 2, rows - 1) * deviation / distance) ** 2
    return max(rows + 1, FEWEST, math.ceil(needed)) if needed < MOST_ROWS else None


def _words(drop: Interval, limit: float, decision: Decision, needs: int | None) -> str:
    found = f"{drop.middle:+.2%} dropped ({drop.low:+.2%} to {drop.high:+.2%}), "
    if decision == "holds":
        return f"{found}at most {limit:.2%} allowed: holds"
    if decision == "broken":
        return f"{found}more than the {limit:.2%} allowed: broken"
    if needs is None:
        return f"{found}too near to the {limit:.2%} allowed to tell with any number of rows"
    return f"{found}{limit:.2%} allowed: cannot tell; about {needs:,} rows would, if they go on like this"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def renumbered(control: Sequence[int], treatment: Sequence[int]) -> dict[int, int] | None:
    """Classes of the module with what the candidate calls them, where its answers are the module's under another numbering.

    >>> renumbered([0, 1, 2, 0, 1, 2], [1, 2, 0, 1, 2, 0])
    {0: 1, 1: 2, 2: 0}
    >>> renumbered([0, 1, 2, 0, 1, 2], [0, 1, 2, 0, 1, 1]) is None
    True
    """
    if not control or len(control) != len(treatment):
        return None
    seen: dict[int, Counter[int]] = {}
    for mine, theirs in zip(control, treatment, strict=True):
        seen.setdefault(mine, Counter())[theirs] += 1
    mapping = {mine: counts.most_common(1)[0][0] for mine, counts in sorted(seen.items())}
    moved = {mine: theirs for mine, theirs in mapping.items() if mine != theirs}
    if len(moved) < 2 or len(set(mapping.values())) < len(mapping):
        return None
    back = sum(mapping[mine] == theirs for mine, theirs in zip(control, treatment, strict=True)) / len(control)
    return moved if back >= RENUMBERED else None
