"""Choices compared as they deserve: each tuned with the same number of runs first, and then judged on seeds that tuned nothing.

The optimizer bake-off and the sweep of batch sizes stand on it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch

from netdyno.knobs._base import Setup
from netdyno.knobs._optimizers import KINDS, built, scaling_of, unavailable
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Interval
from netdyno.records.study import Run
from netdyno.records.trial import Change
from netdyno.stats.spread import t_interval
from netdyno.targets.workload import Workload
from netdyno.verdicts import study as verdicts

LEVEL = 0.95
# What a rate is multiplied by in tuning: half a decade and a decade to either side.
AROUND = (1.0, 0.3, 3.0, 0.1, 10.0)

Recipe = tuple[Change, ...]
Trained = Callable[[Recipe, int], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One choice at its best recipe: what it reached on fresh seeds, beside the best choice of all.

    The best of all is the one that was best in tuning: named by fresh seeds it would be the luckiest on them, and the others would look behind.
    `behind` is its score less the row's own, paired by fresh seed; `alike` whether that may be noise. `classes` is the mean recall of each
    class, `tail` that of the rarest. `failed` tells why a choice has no scores.
    """

    name: str
    recipe: Recipe = ()
    tries: int = 0
    tuned: float | None = None  # its mean score in tuning, which chose its recipe and is flattered by that
    scores: dict[int, float]
    score: Interval | None = None
    behind: Interval | None = None
    alike: bool = False
    classes: tuple[float, ...] = ()
    tail: Interval | None = None
    state_bytes: int = 0
    updates: int = 0
    failed: str | None = None


def compared(
    choices: Mapping[str, Sequence[Recipe]],
    *,
    tuning: Sequence[int],
    fresh: Sequence[int],
    trained: Trained,
    rarest: int | None = None,
    level: float = LEVEL,
    listener: Listener = silent,
) -> tuple[Row, ...]:
    """Each choice's recipes on the tuning seeds, its best one on fresh seeds; highest score first. Every choice must have as many recipes."""
    counts = {len(recipes) for recipes in choices.values()}
    if len(counts) > 1:
        raise ValueError(f"an unequal tuning budget: {sorted(counts)} recipes")
    rows = []
    for done, (name, recipes) in enumerate(choices.items()):
        listener(Event(f"tuning {name}", done, len(choices)))
        rows.append(_row(name, recipes, tuning=tuning, fresh=fresh, trained=trained, rarest=rarest, level=level))
    return _beside_the_best(rows, level)


def _row(
    name: str, recipes: Sequence[Recipe], *, tuning: Sequence[int], fresh: Sequence[int], trained: Trained, rarest: int | None, level: float
) -> Row:  # fmt: skip
    runs = {at: [trained(recipe, seed) for seed in tuning] for at, recipe in enumerate(recipes)}
    tries = len(recipes) * len(tuning)
    scores = {at: {run.seed: run.score for run in mine if run.score is not None} for at, mine in runs.items()}
    # A recipe that fails on a seed is none to choose.
    chosen = verdicts.best_of({at: mine for at, mine in scores.items() if len(mine) == len(tuning)})
    if chosen is None:
        why = next((run.failed for mine in runs.values() for run in mine if run.failed), "no recipe trains to its end")
        return Row(name=name, tries=tries, scores={}, failed=why)
    final = [trained(recipes[chosen], seed) for seed in fresh]
    whole = [run for run in final if run.score is not None]
    reached = {run.seed: run.score for run in whole if run.score is not None}
    recalls = [run.classes for run in whole if run.classes]
    tails = [recall[rarest] for recall in recalls if rarest is not None and rarest < len(recall)]
    return Row(
        name=name, recipe=recipes[chosen], tries=tries, tuned=fmean(scores[chosen].values()), scores=reached,
        score=t_interval(list(reached.values()), level, unbounded=float("inf")) if reached else None,
        classes=tuple(fmean(column) for column in zip(*recalls, strict=True)),
        tail=t_interval(tails, level, unbounded=float("inf")) if tails else None,
        state_bytes=max((run.state_bytes for run in whole), default=0), updates=final[0].updates if final else 0,
        failed=next((run.failed for run in final if run.failed), None),
    )  # fmt: skip


def _beside_the_best(rows: Sequence[Row], level: float) -> tuple[Row, ...]:
    whole = [row for row in rows if row.tuned is not None and row.scores and row.failed is None]
    best = max(whole, key=lambda row: row.tuned or 0.0, default=None)
    if best is None:
        return tuple(rows)
    # All claims "behind" of a table together are wrong as seldom as one of `level` (Bonferroni).
    each = 1 - (1 - level) / max(1, len(rows) - 1)
    found = []
    for row in rows:
        behind = verdicts.effect(row.scores, best.scores, each) if row is not best else None
        pairs = len(row.scores.keys() & best.scores.keys())
        close = behind is not None and row.failed is None and not verdicts.is_better(behind, pairs=pairs)
        found.append(replace(row, behind=behind, alike=row is best or close))
    return tuple(sorted(found, key=lambda row: -row.score.middle if row.score else float("inf")))


def bake_off(
    setup: Setup,
    *,
    names: Sequence[str] | None = None,
    tuning: Sequence[int] = (1, 2),
    fresh: Sequence[int] = (1001, 1002, 1003),
    trained: Trained,
    factors: Sequence[float] = AROUND,
    level: float = LEVEL,
    listener: Listener = silent,
) -> tuple[Row, ...]:
    """Optimizers at equal tuning budget, each at its own best rate, with recall per class and of the rarest class (ledger A-149).

    One that cannot run here is a row that says why.
    """
    asked = tuple(names if names is not None else KINDS)
    no = {name: unavailable(name, device=setup.workload.device) for name in asked}
    choices = {name: [_optimizer(name, factor) for factor in factors] for name in asked if no[name] is None}
    rows = compared(
        choices, tuning=tuning, fresh=fresh, trained=trained, rarest=rarest_class(setup.workload), level=level, listener=listener
    )  # fmt: skip
    return (*rows, *(Row(name=name, scores={}, failed=why) for name, why in no.items() if why is not None))


def _optimizer(name: str, factor: float) -> Recipe:
    rate = float(f"{KINDS[name].rate * factor:.3g}") if name in KINDS else 0.0
    return (Change(id="optimizer", settings={"name": name, "rate": rate}),)


def batch_sweep(
    setup: Setup,
    sizes: Sequence[int],
    *,
    equal: str = "epochs",
    tuning: Sequence[int] = (1, 2),
    fresh: Sequence[int] = (1001, 1002, 1003),
    trained: Trained,
    factors: Sequence[float] = AROUND,
    level: float = LEVEL,
    listener: Listener = silent,
) -> tuple[Row, ...]:
    """Batch sizes, each at its own best rate about what the optimizer's rule says, at equal "epochs" or "updates" (ledger A-165)."""
    rule = scaling_of(built(setup))
    choices: dict[str, list[Recipe]] = {}
    for size in sizes:
        sized = Change(id="batch-size", settings={"size": size, "scaling": rule, "equal": equal})
        choices[str(size)] = [(sized, Change(id="learning-rate", settings={"factor": factor})) for factor in factors]
    return compared(choices, tuning=tuning, fresh=fresh, trained=trained, level=level, listener=listener)


def turning_point(rows: Sequence[Row]) -> tuple[int, int] | None:
    """The sizes that cannot be told from the best, from the smallest to the largest: an interval and not a point. None where nothing trained."""
    alike = [int(row.name) for row in rows if row.alike]
    return (min(alike), max(alike)) if alike else None


def rarest_class(workload: Workload) -> int | None:
    """The class that has fewest training samples; None where targets are no classes, or cannot be counted without a pass over all data."""
    data, _ = workload.datasets()
    targets = data.tensors[-1] if isinstance(data, torch.utils.data.TensorDataset) else None
    if targets is None or targets.is_floating_point() or targets.dim() != 1:
        return None
    counts = torch.bincount(targets)
    return int(torch.where(counts > 0, counts, counts.max() + 1).argmin())
