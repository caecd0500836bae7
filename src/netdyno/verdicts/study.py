"""From runs over seeds to what may be said of a knob: kept, no better, or not distinguishable. Pure arithmetic."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import NamedTuple

from netdyno.records.measured import Interval
from netdyno.records.study import Cell, Option, Run, Rung, Sweep
from netdyno.records.trial import Change
from netdyno.stats.spread import pooled_deviation, t_interval, t_quantile

Scores = Mapping[int, float]  # by seed
# A score is at most 1 where it is an accuracy; where it is minus a loss nothing bounds it. So far an interval reaches that knows nothing.
UNKNOWN = 1e6
# With fewer pairs Student's interval is so wide that nothing is ever told.
LEAST_PAIRS = 3


class Noise(NamedTuple):
    """Standard deviations of a score: between seeds, and within runs, from one evaluation to the next."""

    between: Interval | None
    within: Interval | None


def effect(control: Scores, treatment: Scores, level: float) -> Interval | None:
    """Treatment less control, paired by seed, with Student's interval; None for no common seed.

    >>> effect({1: 0.5, 2: 0.6, 3: 0.55}, {1: 0.7, 2: 0.8, 3: 0.75}, 0.95).middle
    0.2
    """
    common = sorted(control.keys() & treatment.keys())
    if not common:
        return None
    differences = [treatment[seed] - control[seed] for seed in common]
    middle = fmean(differences)
    low, high = min(-UNKNOWN, middle), max(UNKNOWN, middle)
    if len(common) > 1:
        # Scores of a finite validation set lie on a grid: differences that are all alike do not mean that there is no noise.
        spread = max(stdev(differences), grain((*control.values(), *treatment.values())))
        half = t_quantile((1 + level) / 2, len(common) - 1) * spread / math.sqrt(len(common))
        low, high = max(low, middle - half), min(high, middle + half)
    return Interval(middle=round(middle, 12), low=low, high=high, level=level)


def grain(scores: Sequence[float]) -> float:
    """The smallest step between two scores that differ: about what one validation sample counts.

    >>> grain([0.9, 0.95, 0.95, 1.0])
    0.05
    """
    ordered = sorted(set(scores))
    return round(min((after - before for before, after in pairwise(ordered)), default=0.0), 12)


def is_better(found: Interval | None, *, pairs: int, least_gain: float = 0.0) -> bool:
    """Beyond the noise between seeds, by more than the least gain."""
    return found is not None and pairs >= LEAST_PAIRS and found.low > least_gain


def is_no_better(found: Interval | None, *, least_gain: float = 0.0) -> bool:
    """Whether a gain that counts is ruled out."""
    return found is not None and found.high <= least_gain


def tagged(runs: Iterable[Run], tag: str) -> tuple[Run, ...]:
    """The runs of a stage, or of a knob (ledger A-294)."""
    return tuple(run for run in runs if tag in (run.stage, run.knob))


def best_of(candidates: Mapping[int, Scores]) -> int | None:
    """The index of the highest mean over the seeds that all of those have who have the most; None for none.

    Whoever lost a seed by a failed run is no candidate: what fails on one seed in three is not better.
    """
    most = max((len(scores) for scores in candidates.values()), default=0)
    whole = {at: scores for at, scores in candidates.items() if scores and len(scores) == most}
    return max(whole, key=lambda at: (fmean(whole[at].values()), -at), default=None)


def among(
    candidates: Mapping[int, Scores], chosen: int, level: float, *, noise: Sequence[float] = ()
) -> tuple[int, ...]:
    """Which settings cannot be told from the chosen one: an interval of settings and not a point (ledger A-165).

    `noise` are differences of other pairs of one comparison: a race leaves most settings behind after a seed or two, too few
    for a deviation of their own.
    """
    alike = [chosen]
    for at, scores in candidates.items():
        common = scores.keys() & candidates[chosen].keys()
        if at == chosen or not common:
            continue
        found = effect(scores, candidates[chosen], level)
        if len(noise) > 1:
            half = t_quantile((1 + level) / 2, len(noise) - 1) * stdev(noise) / math.sqrt(len(common))
            told = found is not None and found.middle > half
        else:
            told = is_better(found, pairs=len(common))
        if not told:
            alike.append(at)
    return tuple(sorted(alike))


def noise(runs: Sequence[Run]) -> Noise:
    """Of runs of one recipe: how much the final score scatters between seeds, and the last evaluations within a run (ledger A-061)."""
    final = [run.score for run in runs if run.score is not None]
    ends = [[score for _, _, score in run.course[-4:]] for run in runs if len(run.course) >= 4]
    # The last evaluations still rise: what scatters is what is left beside a line.
    return Noise(pooled_deviation((final,)), pooled_deviation([_detrended(end) for end in ends]))


def _detrended(values: Sequence[float]) -> list[float]:
    middle = (len(values) - 1) / 2
    squares = math.fsum((at - middle) ** 2 for at in range(len(values)))
    slope = math.fsum((at - middle) * value for at, value in enumerate(values)) / squares if squares else 0.0
    return [value - slope * (at - middle) for at, value in enumerate(values)]


def noise_in_words(found: Noise) -> str:
    """What a person may conclude from a fluctuating validation score."""
    if found.between is None:
        return "one seed shows no noise between seeds"
    said = f"between seeds the score scatters by {found.between.middle:.3g} ({found.between.low:.2g} to {found.between.high:.2g})"
    if found.within is None:
        return said
    said += f", within a run from one evaluation to the next by {found.within.middle:.3g}"
    if found.within.low > found.between.high:
        return f"{said}: a single evaluation says less than a seed"
    return said


def structure(before: Sequence[float], after: Sequence[float], level: float = 0.95) -> Interval:
    """The difference of two groups of scores that are not paired, by Welch's interval: structure where it leaves out 0.

    >>> structure([0.80, 0.81, 0.79, 0.80], [0.90, 0.91, 0.89, 0.90]).low > 0
    True
    """
    from scipy.stats import ttest_ind

    found = ttest_ind(after, before, equal_var=False).confidence_interval(level)
    return Interval(
        middle=fmean(after) - fmean(before),
        low=max(-UNKNOWN, float(found.low)),
        high=min(UNKNOWN, float(found.high)),
        level=level,
    )


def holm(p_values: Sequence[float], error: float) -> tuple[bool, ...]:
    """Which of several hypotheses fall, at `error` for all together (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    fallen = [False] * len(p_values)
    for rank, at in enumerate(order):
        if p_values[at] > error / (len(p_values) - rank):
            break
        fallen[at] = True
    return tuple(fallen)


def ordered_by_worth(sweeps: Iterable[Sweep]) -> tuple[Sweep, ...]:
    """Sweeps by gain for a person's minute (ledger A-037): what was found, never what is hoped for."""
    return tuple(sorted(sweeps, key=lambda sweep: -worth(sweep)))


def worth(sweep: Sweep) -> float:
    """Score won for a minute of effort.

    >>> worth(Sweep(knob="a", stage="reg", asks="", reason="", options=(), seeds=(), verdict="no better"))
    0.0
    """
    if sweep.verdict != "kept" or sweep.chosen is None:
        return 0.0
    found: Option = sweep.options[sweep.chosen]
    return found.effect.middle / sweep.effort_min if found.effect is not None else 0.0


def unproven(recipe: Iterable[Change], sweeps: Iterable[Sweep]) -> tuple[str, ...]:
    """Knobs of a recipe without a sweep that kept them and says why (ledger A-006, A-038)."""
    proven = [
        sweep.options[sweep.chosen].change
        for sweep in sweeps
        if sweep.verdict == "kept" and sweep.reason and sweep.chosen is not None
    ]
    return tuple(change.id for change in recipe if change not in proven)


def rung(
    name: str,
    recipe: tuple[Change, ...],
    values: Mapping[str, Scores],
    before: Rung | None,
    *,
    earlier: Mapping[str, Scores] | None,
    level: float,
) -> Rung:
    """One row of the ladder (ledger A-036): each cell with the mean over seeds, its interval, and the difference to the row above."""
    cells: dict[str, Cell] = {}
    for quantity, scores in values.items():
        value = t_interval(list(scores.values()), level, unbounded=UNKNOWN) if scores else None
        delta = None
        if before is not None and earlier is not None:
            delta = effect(earlier.get(quantity, {}), scores, level)
        pairs = len(scores.keys() & (earlier or {}).get(quantity, {}).keys())
        told = delta is not None and pairs >= LEAST_PAIRS and not delta.low <= 0.0 <= delta.high
        cells[quantity] = Cell(value=value, delta=delta, told=told)
    return Rung(
        name=name, recipe=recipe, seeds=max((len(scores) for scores in values.values()), default=0), cells=cells
    )
