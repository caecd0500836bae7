"""What a faster change must not break: the answers, the training, its steadiness, memory, and the time it costs to set up."""

import math
import struct
from collections.abc import Sequence
from statistics import fmean, stdev

from netdyno.records.measured import Interval
from netdyno.records.trial import Guard, Memory, Parity, Stability, Trajectories
from netdyno.stats.spread import deviation, pooled_deviation, t_quantile
from netdyno.verdicts import words

# Records refuse infinity. A difference that cannot be expressed (a loss that is not a number) is written as this.
BROKEN = 1e9

# A training loss is smoothed over a fifth of the run: long enough for batch noise to average out, short
# enough to see a run that leaves the path for a while and comes back.
WINDOWS = 5

# The end of a run is the mean of its last quarter of validation rounds: steadier than the last one alone.
TAIL = 0.25

# Error of the two F tests of `steady`, 5 % together. Nearly all of it goes to the spread over rounds, which
# has the degrees of freedom to find something.
OVER_EPOCHS_ERROR = 0.04
OVER_SEEDS_ERROR = 0.01


def same_bits(a: Sequence[object], b: Sequence[object], *, output: str = "losses") -> Parity:
    """How many of the values differ in any bit. Floats are compared as bits: NaN equals itself, 0.0 is not -0.0.

    >>> same_bits([1.0, 2.0], [1.0, 2.5]).worst
    1.0
    """
    differ = sum(_bits(x) != _bits(y) for x, y in zip(a, b, strict=False)) + abs(len(a) - len(b))
    return Parity(output=output, worst=float(differ), allowed=0.0, measure="bits")


def envelope(
    control: Trajectories, reordered: tuple[Trajectories, ...], treatment: Trajectories, *, tolerance: float
) -> Parity:
    """Whether the treatment trains along the control's path, as far as rounding alone lets anyone follow it.

    Training amplifies rounding: runs that differ only in the order of sums drift apart, so the first gradient proves
    nothing and equality is too much to ask. Allowed is `tolerance` plus what control arms that only reorder sums do,
    as a 95 % prediction bound from all of their seeds. Departures are relative, averaged over seeds with their
    sign, and count in both directions: a loss that falls faster than it should is as suspicious as one that lags.
    Looks at the smoothed training loss and at the final validation loss, and answers with the one closer to failing.
    """
    parities = [_train_envelope(control, reordered, treatment, tolerance)]
    if any(control.val_losses):
        parities.append(_val_envelope(control, reordered, treatment, tolerance))
    return max(parities, key=lambda parity: parity.worst - parity.allowed)


def not_worse(control: Trajectories, treatment: Trajectories, *, tolerance: float, level: float = 0.95) -> Parity:
    """Whether other randomness, or another training, ends as well: non-inferiority of the final validation loss.

    Holds when the upper bound at `level` of the mean worsening over seeds is at most `tolerance` of the control's
    loss. With few seeds that bound is wide; then it also holds when the mean worsening itself is no larger than the
    difference that two control runs with different seeds typically show (√2 times their standard deviation).
    """
    ends = _paired_ends(control, treatment)
    if ends is None:
        return Parity(output="validation loss", worst=BROKEN, allowed=tolerance, measure="metric")
    before, after = ends
    worse = [b - a for a, b in zip(before, after, strict=True)]
    size = abs(fmean(before)) or 1.0
    mean = fmean(worse) / size
    if len(worse) < 2:
        return Parity(output="validation loss of one seed", worst=mean, allowed=tolerance, measure="metric")
    bound = mean + t_quantile(level, len(worse) - 1) * stdev(worse) / math.sqrt(len(worse)) / size
    if bound <= tolerance:
        output = f"validation loss, {100 * level:.0f} % bound over {len(worse)} seeds"
        return Parity(output=output, worst=bound, allowed=tolerance, measure="metric")
    allowed = max(tolerance, math.sqrt(2) * stdev(before) / size)
    return Parity(
        output=f"validation loss, mean over {len(worse)} seeds", worst=mean, allowed=allowed, measure="metric"
    )


def stability(trajectories: Trajectories, burn_in: float = 0.25) -> Stability:
    """The two definitions of ledger A-029, apart. `burn_in` is the share of rounds left out at the start.

    Over epochs: the standard deviation of the validation loss over the remaining rounds, each seed around its own
    mean, pooled. Over seeds: the standard deviation of the last validation loss. Either is None where there are
    too few values for a spread, or where a loss is not finite.
    """
    rounds = min((len(losses) for losses in trajectories.val_losses), default=0)
    first = int(burn_in * rounds)
    tails = [losses[first:rounds] for losses in trajectories.val_losses]
    sound = rounds > 0 and all(math.isfinite(loss) for tail in tails for loss in tail)
    return Stability(
        over_epochs=pooled_deviation(tails) if sound else None,
        over_seeds=deviation([tail[-1] for tail in tails]) if sound else None,
        rounds=rounds - first,
        seeds=len(tails),
    )


def steady(control: Stability, treatment: Stability, spread: float) -> Guard:
    """Whether the validation loss scatters no more than before. Fails only where there is proof.

    Fails when the ratio of standard deviations is above `spread` and above 1 by an F test, for either definition;
    the two tests together err in at most 5 % of harmless changes. A small sample that shows no harm passes, with
    the ratio said aloud; what could not be measured at all is None.
    """
    judged = [
        _steadier(
            "over rounds",
            control.over_epochs,
            treatment.over_epochs,
            freedom=(control.seeds * (control.rounds - 1), treatment.seeds * (treatment.rounds - 1)),
            spread=spread,
            error=OVER_EPOCHS_ERROR,
        ),
        _steadier(
            "over seeds",
            control.over_seeds,
            treatment.over_seeds,
            freedom=(control.seeds - 1, treatment.seeds - 1),
            spread=spread,
            error=OVER_SEEDS_ERROR,
        ),
    ]
    known = [(holds, says) for holds, says in judged if holds is not None]
    if not known:
        return Guard(name="stability", holds=None, says="too few rounds and seeds for a spread of the validation loss")
    broken = [says for holds, says in known if not holds]
    says = "; ".join(broken or [says for _, says in known])
    return Guard(name="stability", holds=not broken, says=f"the validation loss scatters {says}")


def finite(treatment: Trajectories, control: Trajectories | None = None) -> Guard:
    """Whether every loss is a number. A run that was cut short where it stopped being one counts as broken there."""
    for name, mine, others in (
        ("training", treatment.train_losses, control.train_losses if control else ()),
        ("validation", treatment.val_losses, control.val_losses if control else ()),
    ):
        longest = max((len(losses) for losses in (*mine, *others)), default=0)
        for seed, losses in zip(treatment.seeds, mine, strict=False):
            step = next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
            if step < longest:
                unit = "step" if name == "training" else "round"
                says = f"the {name} loss is not finite from {unit} {step + 1} on (seed {seed})"
                return Guard(name="finite", holds=False, says=says)
    if not any(treatment.train_losses):
        return Guard(name="finite", holds=None, says="no loss was recorded")
    return Guard(name="finite", holds=True, says="every loss is finite")


def break_even(setup_s: float, saved_per_step_s: float, steps_left: int | None, *, at_least: int = 0) -> Guard:
    """Whether the steps that remain pay back what setting up costs (compilation, for instance).

    Where nobody knows how many remain, `at_least` so many do: what they pay back is paid back.
    """
    name = "break-even"
    if setup_s <= 0:
        return Guard(name=name, holds=True, says="costs nothing to set up")
    cost = words.said_seconds(setup_s)
    if saved_per_step_s <= 0:
        return Guard(name=name, holds=False, says=f"takes {cost} to set up and saves nothing per step")
    steps = math.ceil(setup_s / saved_per_step_s)
    pays = f"takes {cost} to set up, paid back after {steps} steps"
    if steps_left is None and steps <= at_least:
        return Guard(name=name, holds=True, says=f"{pays}, and there are {at_least} at least")
    if steps_left is None:
        return Guard(name=name, holds=None, says=f"{pays}; how many remain is not known")
    return Guard(name=name, holds=steps <= steps_left, says=f"{pays} of the {steps_left} that remain")


def memory(control: Memory, treatment: Memory, budget: int | None) -> Guard:
    """Whether the treatment stays within the memory budget, in bytes; without one, says what it uses."""
    name = "memory"
    used, counted = treatment.peak, treatment.activations + treatment.state
    change = _change_in_bytes(control, treatment)
    if budget is None:
        return Guard(name=name, holds=True, says=f"{change}; no budget is set")
    limit = words.said_bytes(budget)
    if used is not None:
        return Guard(name=name, holds=used <= budget, says=f"peaks at {words.said_bytes(used)} of {limit}; {change}")
    if counted > budget:
        says = f"activations and state alone are {words.said_bytes(counted)}, the budget is {limit}"
        return Guard(name=name, holds=False, says=says)
    return Guard(name=name, holds=None, says=f"its peak was not measured; {change}")


def _bits(value: object) -> object:
    return struct.pack("<d", value) if isinstance(value, float) else value


def _change_in_bytes(control: Memory, treatment: Memory) -> str:
    if control.peak and treatment.peak:
        before, after, what = control.peak, treatment.peak, "peak memory"
    else:
        before, after = control.activations + control.state, treatment.activations + treatment.state
        what = "activations and state"
    return f"{what} {words.said_bytes(before)} before, {words.said_bytes(after)} after"


def _train_envelope(
    control: Trajectories, reordered: tuple[Trajectories, ...], treatment: Trajectories, tolerance: float
) -> Parity:
    output = "smoothed training loss"
    curves = _departures(control.train_losses, treatment.train_losses)
    if curves is None:
        return Parity(output=output, worst=BROKEN, allowed=tolerance, measure="envelope")
    worst = max((abs(fmean(at)) for at in zip(*curves, strict=True)), default=0.0)
    others = [_departures(control.train_losses, arm.train_losses) for arm in reordered]
    runs = [curve for arm in others if arm is not None for curve in arm]
    beyond = 0.0
    if runs:
        size = max(math.sqrt(fmean(d * d for d in at)) for at in zip(*runs, strict=True))
        beyond = _prediction(size, runs=len(runs), seeds=len(curves), places=WINDOWS)
    return Parity(output=output, worst=worst, allowed=tolerance + beyond, measure="envelope")


def _val_envelope(
    control: Trajectories, reordered: tuple[Trajectories, ...], treatment: Trajectories, tolerance: float
) -> Parity:
    output = "final validation loss"
    ends = _end_departures(control, treatment)
    if ends is None:
        return Parity(output=output, worst=BROKEN, allowed=tolerance, measure="envelope")
    runs = [departure for arm in reordered for departure in _end_departures(control, arm) or ()]
    beyond = 0.0
    if runs:
        beyond = _prediction(math.sqrt(fmean(d * d for d in runs)), runs=len(runs), seeds=len(ends), places=1)
    return Parity(output=output, worst=abs(fmean(ends)), allowed=tolerance + beyond, measure="envelope")


def _prediction(size: float, *, runs: int, seeds: int, places: int) -> float:
    """How far the mean over `seeds` of one more harmless arm may lie, when `runs` harmless runs had this root mean
    square: 95 %, shared among the `places` that are looked at."""
    return t_quantile(1 - 0.025 / places, runs) * size / math.sqrt(seeds)


def _departures(
    control: tuple[tuple[float, ...], ...], other: tuple[tuple[float, ...], ...]
) -> list[list[float]] | None:
    """Per seed, the smoothed difference of two loss curves over the control's mean loss; None for a broken curve."""
    if len(control) != len(other) or not all(control):
        return None
    length = min(len(losses) for losses in control)
    curves = []
    for mine, theirs in zip(control, other, strict=True):
        if len(theirs) < length or not all(math.isfinite(loss) for loss in (*mine, *theirs)):
            return None
        size = fmean(abs(loss) for loss in mine) or 1.0
        differences = [(b - a) / size for a, b in zip(mine[:length], theirs[:length], strict=True)]
        curves.append(_smooth(differences, max(1, length // WINDOWS)))
    return curves


def _smooth(values: list[float], window: int) -> list[float]:
    """The moving average; as many values shorter as the window is long, less one."""
    return [fmean(values[i : i + window]) for i in range(len(values) - window + 1)]


def _end_departures(control: Trajectories, other: Trajectories) -> list[float] | None:
    ends = _paired_ends(control, other)
    if ends is None:
        return None
    return [(b - a) / (abs(a) or 1.0) for a, b in zip(*ends, strict=True)]


def _paired_ends(control: Trajectories, other: Trajectories) -> tuple[list[float], list[float]] | None:
    """The final validation losses of the seeds that both have; None when a run of `other` did not get as far."""
    theirs = dict(zip(other.seeds, other.val_losses, strict=True))
    before, after = [], []
    for seed, losses in zip(control.seeds, control.val_losses, strict=True):
        if seed not in theirs or not losses:
            continue
        tail = max(1, round(TAIL * len(losses)))
        if len(theirs[seed]) < len(losses):
            return None
        before.append(fmean(losses[-tail:]))
        after.append(fmean(theirs[seed][len(losses) - tail : len(losses)]))
    if not before or not all(math.isfinite(loss) for loss in (*before, *after)):
        return None
    return before, after


def _steadier(
    over: str,
    control: Interval | None,
    treatment: Interval | None,
    *,
    freedom: tuple[int, int],
    spread: float,
    error: float,
) -> tuple[bool | None, str]:
    """Whether one standard deviation did not grow, and how to say it."""
    from scipy.special import fdtrc

    if control is None or treatment is None or min(freedom) < 1:
        return None, ""
    said = f"({treatment.middle:.3g} against {control.middle:.3g})"
    if control.middle == 0:
        # No ratio to a control that does not scatter at all.
        return (True, f"no more {over} {said}") if treatment.middle == 0 else (None, "")
    ratio = treatment.middle / control.middle
    chance = float(fdtrc(freedom[1], freedom[0], ratio**2))
    broken = ratio > spread and chance < error
    return not broken, f"{ratio:.2f}× as much {over} {said}"
