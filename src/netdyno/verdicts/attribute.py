"""The total gain taken apart: what each kept change saves, what they save only together, what is left unexplained.

The design. Every rung of two ladders is raced, one built in the order of the walk and one in reverse, and for each
change the final recipe without it. A change's share is the mean of what it saved on either ladder: half of every
interaction with a neighbour goes to each. Both ladders end at the same recipe, so the shares add up to its gain. The
total is measured apart from the rungs; what separates it from the sum of the shares is the residual.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from netdyno.records.measured import Interval
from netdyno.records.trial import ArmTimes, Attribution, Change, Form, Interaction, Share
from netdyno.stats.spread import MAD_TO_SD, t_interval, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Up to three changes have at most eight subsets, hardly more than the two ladders need: race them all.
ALL_SUBSETS_UP_TO = 3

# A turn this many robust standard deviations off its arm and its round was hit by something outside; it is moved
# in to the limit. Milder outliers stay, so that the interval says what they cost.
STALL = 5.0

# Median polish has settled to the last digits by then.
POLISHES = 10

# An interval in seconds that is not known reaches this many baseline steps either way.
UNKNOWN_STEPS = 1000.0

# A claim is made for somebody who checks it with this many pairs of processes.
REPEATS = 7

Key = frozenset[tuple[str, tuple[tuple[str, str], ...]]]
Rounds = Sequence[Sequence[float]]  # seconds per step by spawn and round


def ladder(order: tuple[Change, ...]) -> tuple[tuple[Change, ...], ...]:
    """The distinct recipes to race: baseline, both ladders, the final recipe without each change.

    >>> a, b, c, d = (Change(id=name) for name in "abcd")
    >>> [" ".join(change.id for change in recipe) for recipe in ladder((a, b, c, d))]
    ['', 'a', 'a b', 'a b c', 'a b c d', 'd', 'c d', 'b c d', 'a c d', 'a b d']
    """
    count = len(order)
    if count <= ALL_SUBSETS_UP_TO:
        return tuple(
            subset for size in range(count + 1) for subset in itertools.combinations(order, size)
        )  # all of them; for none or one change that is the ladder itself
    forward = [order[:i] for i in range(count + 1)]
    backward = [order[i:] for i in reversed(range(1, count))]
    without = [(*order[:i], *order[i + 1 :]) for i in range(1, count - 1)]
    return tuple({key_of(recipe): recipe for recipe in (*forward, *backward, *without)}.values())


def attribute(
    *,
    order: tuple[Change, ...],
    arms: tuple[ArmTimes, ...],
    check_baseline: Rounds,
    check_final: Rounds,
    level: float,
    codes: Mapping[str, str],
    trials: Mapping[str, int],
    form: Form = "processes",
) -> Attribution:
    """The shares of the kept changes, in the order of the walk. `codes` and `trials` are by the label of a change.

    `arms` hold at least the recipes of `ladder(order)`; they are recognised by the set of their changes. The check has
    spawns of its own, as many as it took. Intervals
    are Student's over spawns, because a process keeps its luck for as long as it lives; from a single spawn they are
    over its rounds, and then say nothing of other processes. Rows and residual add up to the total.
    """
    base, final = _units(check_baseline, check_final)
    total = _over(_minus(base, final), level, base)
    seconds = _arm_units(arms)
    rows = [_row(order, i, seconds) for i in range(len(order))]
    scale = seconds.get(frozenset(), base)
    shares = tuple(
        Share(
            change=change,
            gain=_over(row.gain, level, scale),
            forward=_over(row.forward, level, scale),
            backward=_over(row.backward, level, scale),
            left_out=_over(row.left_out, level, scale),
            trial=trials.get(change.label),
            code=codes.get(change.label, ""),
        )
        for change, row in zip(order, rows, strict=True)
    )
    return Attribution(
        baseline_s=_over(base, level, base),
        final_s=_over(final, level, base),
        total=total,
        speedup=speedup(check_baseline, check_final, level=level),
        shares=shares,
        residual=_residual(total, shares, rows, _minus(base, final)),
        interactions=_interactions(order, rows, level, scale),
        arms=arms,
        check_baseline=_as_tuples(check_baseline),
        check_final=_as_tuples(check_final),
        form=form,
    )


def speedup(check_baseline: Rounds, check_final: Rounds, *, level: float) -> Interval:
    """How many times faster the final recipe is, from rounds in which it took turns with the baseline.

    The interval is meant for whoever times it again: it is where the mean of `REPEATS` more pairs of processes will lie.
    Those pairs have luck of their own, so it is wider than the interval of the mean by the root of 1 + n / REPEATS, for
    n spawns (a prediction interval for a mean; Hahn and Meeker 1991, section 4.7).
    """
    base, final = _units(check_baseline, check_final)
    logs = t_interval([math.log(a / b) for a, b in zip(base, final, strict=True)], level)
    half = logs.width / 2 * math.sqrt(1 + len(base) / REPEATS)
    return Interval(
        middle=math.exp(logs.middle), low=math.exp(logs.middle - half), high=math.exp(logs.middle + half), level=level
    )


def key_of(recipe: Sequence[Change]) -> Key:
    """A recipe as the set of its changes: order does not matter to what is measured."""
    return frozenset(
        (change.id, tuple(sorted((name, repr(value)) for name, value in change.settings.items()))) for change in recipe
    )


class _Row(NamedTuple):
    """Seconds saved by one change, by unit of replication. `company` is its marginal among the fewest others."""

    forward: list[float]
    backward: list[float]
    left_out: list[float]
    company: list[float]

    @property
    def gain(self) -> list[float]:
        return [(a + b) / 2 for a, b in zip(self.forward, self.backward, strict=True)]


def _row(order: tuple[Change, ...], position: int, seconds: Mapping[Key, list[float]]) -> _Row:
    change = order[position : position + 1]
    before, after = order[:position], order[position + 1 :]

    def marginal(company: tuple[Change, ...]) -> list[float]:
        return _minus(_found(company, seconds), _found((*company, *change), seconds))

    if key_of(change) in seconds:
        smallest: tuple[Change, ...] = ()
    else:
        smallest = before if len(before) <= len(after) else after
    return _Row(
        forward=marginal(before),
        backward=marginal(after),
        left_out=marginal((*before, *after)),
        company=marginal(smallest),
    )


def _found(recipe: tuple[Change, ...], seconds: Mapping[Key, list[float]]) -> list[float]:
    try:
        return seconds[key_of(recipe)]
    except KeyError:
        names = " + ".join(change.label for change in recipe) or "the baseline"
        raise ValueError(f"the ladder has no arm for {names}") from None


def _interactions(
    order: tuple[Change, ...], rows: list[_Row], level: float, scale: list[float]
) -> tuple[Interaction, ...]:
    """What each change saves among all others beyond what it saves alone.

    Where a change was not raced alone (the inner ones of four or more), "alone" is the smallest company in which it was.
    """
    if len(order) < 2:
        return ()
    terms = [_over(_minus(row.left_out, row.company), level, scale) for row in rows]
    return tuple(
        Interaction(change=change, term=term, distinguishable=not term.holds(0.0))
        for change, term in zip(order, terms, strict=True)
    )


def _residual(total: Interval, shares: tuple[Share, ...], rows: list[_Row], checked: list[float]) -> Interval:
    """Total minus the sum of the shares.

    The ladder and the check have spawns of their own, not always as many, so their variances add.
    """
    middle = math.fsum((total.middle, *(-share.gain.middle for share in shares)))
    if not rows:
        return Interval(middle=middle, low=middle, high=middle, level=total.level)
    sums = [math.fsum(parts) for parts in zip(*(row.gain for row in rows), strict=True)]
    half = _half_of_difference(checked, sums, total.level)
    return Interval(middle=middle, low=middle - half, high=middle + half, level=total.level)


def _half_of_difference(left: list[float], right: list[float], level: float) -> float:
    """Half the interval of a difference of two means, with the smaller of the two degrees of freedom."""
    freedom = min(len(left), len(right)) - 1
    if freedom < 1:
        return UNKNOWN_STEPS
    variance = sum(_squares(side) / (len(side) - 1) / len(side) for side in (left, right))
    return t_quantile((1 + level) / 2, freedom) * math.sqrt(variance)


def _squares(values: list[float]) -> float:
    middle = fmean(values)
    return math.fsum((value - middle) ** 2 for value in values)


def _over(values: list[float], level: float, scale: list[float]) -> Interval:
    """The mean over units with its interval, in seconds."""
    return t_interval(values, level, unbounded=UNKNOWN_STEPS * fmean(scale))


def _minus(left: Sequence[float], right: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(left, right, strict=True)]


def _arm_units(arms: tuple[ArmTimes, ...]) -> dict[Key, list[float]]:
    """Seconds per step of every arm, by unit of replication; one key that several arms share keeps the first."""
    if not arms:
        return {}
    units = _units(*(arm.times for arm in arms))
    found: dict[Key, list[float]] = {}
    for arm, values in zip(arms, units, strict=True):
        found.setdefault(key_of(arm.recipe), values)
    return found


def _units(*sides: Rounds) -> list[list[float]]:
    """Per side, one value for each spawn; from a single spawn, one value for each round.

    A spawn's value is the mean of its cleaned rounds. The mean, because sides of one round shared the state of the
    machine and a mean of differences is the difference of means: rows then add up exactly.
    """
    spawns = {len(side) for side in sides}
    if len(spawns) != 1 or not min(spawns):
        raise ValueError(f"the arms have {sorted(spawns)} spawns; all need the same number, and at least one")
    tables = [_cleaned([side[spawn] for side in sides]) for spawn in range(spawns.pop())]
    if len(tables) == 1:
        return [list(row) for row in tables[0]]
    return [[fmean(table[i]) for table in tables] for i in range(len(sides))]


def _cleaned(rows: list[Sequence[float]]) -> list[list[float]]:
    """The rounds of one spawn, side by side, with the machine's drift taken out and stalls moved in.

    log seconds = side + round + rest, fitted by medians (Tukey's median polish), so that a stall moves neither. The
    common part of a round is replaced by its median over rounds: the level stays, the drift goes. Rounds that not
    all sides finished are left out.
    """
    import numpy as np

    rounds = min(len(row) for row in rows)
    if not rounds:
        raise ValueError("a spawn has no finished round")
    logs = np.log(np.array([list(row[:rounds]) for row in rows], dtype=float))
    side, drift, rest = _polished(logs)
    spread = np.abs(rest[np.abs(rest) > 1e-12])
    if spread.size:
        limit = STALL * MAD_TO_SD * float(np.median(spread))
        rest = np.clip(rest, -limit, limit)
    clean: list[list[float]] = np.exp(side + rest + float(np.median(drift))).tolist()
    return clean


def _polished(
    logs: "NDArray[np.float64]",
) -> tuple["NDArray[np.float64]", "NDArray[np.float64]", "NDArray[np.float64]"]:
    import numpy as np

    median: Callable[..., NDArray[np.float64]] = np.median
    rest = logs.copy()
    side = np.zeros((logs.shape[0], 1))
    drift = np.zeros((1, logs.shape[1]))
    for _ in range(POLISHES):
        by_side = median(rest, axis=1, keepdims=True)
        side, rest = side + by_side, rest - by_side
        by_round = median(rest, axis=0, keepdims=True)
        drift, rest = drift + by_round, rest - by_round
    return side, drift, rest


def _as_tuples(rounds: Rounds) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(spawn) for spawn in rounds)
