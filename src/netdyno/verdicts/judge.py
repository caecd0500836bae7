"""From the samples of a trial to keep, drop or undecided. Pure: a stored trial can be judged again."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from netdyno.records.measured import Interval
from netdyno.records.trial import Form, Guard, Memory, Parity, Ticks, Trial, Verdict
from netdyno.stats.paired import UNBOUNDED, as_gain, hodges_lehmann, log_ratios, total_gain
from netdyno.stats.sequential import look_error
from netdyno.stats.spread import over_spawns
from netdyno.verdicts import words

Decision = Literal["keep", "drop", "undecided"]

# These change what is learnt, not only how it is computed: without a judged guard nothing is known about the harm.
CHANGES_TRAINING = ("lower-precision", "other-randomness", "other-training")

# On these both sides must eat the same batches; a change of randomness may change the batches themselves.
SAME_BATCHES = ("same-bits", "reordered", "lower-precision")


class Look(NamedTuple):
    """What a trial shows so far. `total` is the share of all time saved (`paired.total_gain`)."""

    decision: Decision
    gain: Interval
    total: float


def look(
    control: Sequence[float],
    treatment: Sequence[float],
    *,
    spawns: Sequence[int],
    form: Form,
    least_gain: float,
    alpha: float,
) -> Look:
    """Decide from the pairs so far. `alpha` is the error this look may spend (`sequential.look_error`).

    Keep when the whole interval lies above `least_gain`, drop when all of it lies below. The sum of all times must
    agree with the ranks about the side: a change that speeds up most steps and pays for it in a few is undecided.
    """
    gain = measured_gain(control, treatment, spawns=spawns, form=form, level=1 - alpha)
    total = total_gain(control, treatment)
    decision: Decision = "undecided"
    if gain.low > least_gain and total > least_gain:
        decision = "keep"
    elif gain.high < least_gain and total < least_gain:
        decision = "drop"
    return Look(decision, gain, total)


def measured_gain(
    control: Sequence[float], treatment: Sequence[float], *, spawns: Sequence[int], form: Form, level: float
) -> Interval:
    """The share of a step saved: over pairs in one process, over spawns between processes.

    A single spawn gives a bounded middle and an interval that decides nothing.
    """
    ratios = log_ratios(control, treatment)
    if form == "in-process":
        return as_gain(hodges_lehmann(ratios, level))
    return as_gain(over_spawns(_by_spawn(ratios, spawns), level))


def judge(
    trial: Trial,
    *,
    number: int,
    least_gain: float,
    error: float,
    bottleneck: str | None,
    undone: bool | None,
    goal: str = "time",
    time_price: float | None = None,
) -> Verdict:
    """The verdict on a stored trial, under any policy, from its samples alone.

    `error` is this trial's part of the campaign's (`sequential.campaign_error`). Each look of the trial spends what
    it spent when it was taken. `bottleneck` is the sentence that quantified what the change acts on; `undone` says
    whether taking it back was checked. Under the goal "memory", less memory is kept too, where surely at most
    `time_price` of a step (the least gain, unless set) is lost for it.
    """
    if trial.failed is not None:
        ticks = Ticks(quantified=bottleneck, undoable=_undoable(undone), attributable=None)
        return Verdict(trial=number, decision="drop", gain=None, reasons=(f"failed: {trial.failed}",), ticks=ticks)
    seen = seen_in(trial, least_gain=least_gain, error=error)
    decision, reasons = _on_time(seen, least_gain=least_gain)
    gain = seen.gain if seen else None
    if goal == "memory" and decision != "keep":
        price = least_gain if time_price is None else time_price
        equal = seen_in(trial, least_gain=-price, error=error)
        saved = memory_saved(trial.memory_control, trial.memory_treatment)
        if equal is not None and saved is not None and saved > least_gain:
            decision, gain, reasons = equal.decision, equal.gain, (_on_memory(saved, equal, price=price),)
    attributable = reasons[0] if decision == "keep" else None
    ticks = Ticks(quantified=bottleneck, undoable=_undoable(undone), attributable=attributable)
    decision, reasons = _gated(decision, reasons, trial=trial, ticks=ticks, undone=undone)
    return Verdict(trial=number, decision=decision, gain=gain, reasons=reasons, ticks=ticks)


def seen_in(trial: Trial, *, least_gain: float, error: float) -> Look | None:
    """The first look of a trial that decides; without one, the look with the narrowest interval. None without pairs.

    Any choice among the looks is fair, because by the union bound all their intervals hold together.
    """
    looks = [
        look(
            trial.control.samples[:pairs],
            trial.treatment.samples[:pairs],
            spawns=trial.spawns[:pairs],
            form=trial.form,
            least_gain=least_gain,
            alpha=alpha,
        )
        for pairs, alpha in _looks(trial, error)
    ]
    decisive = [seen for seen in looks if seen.decision != "undecided"]
    return decisive[0] if decisive else min(looks, key=lambda seen: seen.gain.width, default=None)


def memory_saved(control: Memory | None, treatment: Memory | None) -> float | None:
    """The share of memory saved: of bytes counted exactly where both sides have them, else of the measured peaks."""
    if control is None or treatment is None:
        return None
    counted = control.activations + control.state
    if counted and treatment.activations + treatment.state:
        return 1 - (treatment.activations + treatment.state) / counted
    if control.peak and treatment.peak:
        return 1 - treatment.peak / control.peak
    return None


def _looks(trial: Trial, error: float) -> list[tuple[int, float]]:
    """How many pairs each look saw and what it may spend; one look at everything when none is on record."""
    pairs = min(len(trial.control.samples), len(trial.treatment.samples))
    if not pairs:
        return []
    if not trial.looks:
        return [(pairs, error)]
    taken = [trial.looks[: i + 1] for i in range(len(trial.looks))]
    return [
        (looks[-1], look_error(looks, planned=trial.planned_pairs or trial.looks[-1], error=error))
        for looks in taken
        if 0 < looks[-1] <= pairs
    ]


def _by_spawn(ratios: Sequence[float], spawns: Sequence[int]) -> list[list[float]]:
    """The ratios of each spawn. Pairs that don't say where they come from are one spawn."""
    if not spawns:
        return [list(ratios)]
    groups: dict[int, list[float]] = {}
    for ratio, spawn in zip(ratios, spawns, strict=True):
        groups.setdefault(spawn, []).append(ratio)
    return list(groups.values())


def _on_time(seen: Look | None, *, least_gain: float) -> tuple[Decision, tuple[str, ...]]:
    if seen is None:
        return "undecided", ("no pair of steps was taken",)
    gain, asked = seen.gain, f"the {words.percent(least_gain, decimals=_decimals(least_gain))} asked for"
    if seen.decision == "keep":
        return "keep", (f"saves {words.saved(gain)}, more than {asked}", *_uneven(seen))
    if seen.decision == "drop":
        if gain.high < 0:
            return "drop", (f"costs {words.costs(gain)}",)
        if gain.low <= 0:
            return "drop", (f"not distinguishable from noise {words.span(gain)}, and surely less than {asked}",)
        return "drop", (f"saves only {words.saved(gain)}, less than {asked}",)
    return "undecided", (_why_undecided(seen, least_gain=least_gain, asked=asked),)


def _why_undecided(seen: Look, *, least_gain: float, asked: str) -> str:
    gain = seen.gain
    if gain.low <= _nothing().low or gain.high >= _nothing().high:
        return f"too few pairs or spawns for an interval at {words.level_of(gain)}"
    if gain.low > least_gain or gain.high < least_gain:
        return (
            f"the typical step and the total disagree: {words.saved(gain)} saved in the typical step, "
            f"{words.percent(seen.total)} of all time; steps come in bursts"
        )
    if gain.holds(0.0):
        return f"not distinguishable from noise {words.span(gain)}"
    if gain.high < 0:
        return f"costs {words.costs(gain)}, not surely more than {asked}"
    return f"saves {words.saved(gain)}, not surely more or less than {asked}"


def _nothing() -> Interval:
    """The interval of a trial that shows nothing: a thousandfold either way."""
    return as_gain(Interval(middle=0.0, low=-UNBOUNDED, high=UNBOUNDED))


def _uneven(seen: Look) -> tuple[str, ...]:
    """A second sentence when the sum of all times lies well outside what the ranks claim."""
    if abs(seen.total - seen.gain.middle) <= max(seen.gain.width, 0.02):
        return ()
    return (f"steps are uneven: over all of them it saves {words.percent(seen.total)}",)


def _on_memory(saved: float, equal: Look, *, price: float) -> str:
    """What less memory costs in time, against what it may."""
    saves = f"saves {words.percent(saved)} of memory"
    allowed = f"{words.percent(price, decimals=_decimals(price))} allowed"
    if equal.gain.low <= _nothing().low:
        return f"{saves}, but what it loses of a step is not known; {allowed}"
    lost = words.percent(max(0.0, -equal.gain.low), decimals=1)
    if equal.decision == "keep":
        return f"{saves}: loses at most {lost} of a step, {allowed}"
    return f"{saves}, but may lose {lost} of a step, {allowed}"


def _gated(
    decision: Decision, reasons: tuple[str, ...], *, trial: Trial, ticks: Ticks, undone: bool | None
) -> tuple[Decision, tuple[str, ...]]:
    """What parity, guards and the three ticks leave of a decision on time alone. Harm outweighs every gain."""
    if undone is False:
        return "drop", ("taking it back did not restore every byte", *reasons)
    harm = _harm(trial)
    if harm:
        return "drop", (*(f"rolled back: {says}" for says in harm), *reasons)
    if decision != "keep":
        return decision, reasons
    unknown = _unknown(trial)
    if unknown:
        return "undecided", (*unknown, *reasons)
    missing = _missing(ticks)
    if missing:
        return "drop", (*missing, *reasons)
    return "keep", (*reasons, *_unchecked(trial))


def _harm(trial: Trial) -> list[str]:
    broken = [
        f"{parity.output} differs by {parity.worst:.3g} ({parity.measure}), {parity.allowed:.3g} is allowed"
        for parity in trial.parity
        if not parity.holds
    ]
    return broken + [guard.says for guard in trial.guards if guard.holds is False]


def _unknown(trial: Trial) -> tuple[str, ...]:
    """What must be known before a change may be kept, and is not."""
    says: list[str] = []
    if trial.numerics in SAME_BATCHES and trial.checksums is not None and trial.checksums[0] != trial.checksums[1]:
        says.append("the two sides were fed different batches, so their times cannot be compared")
    if trial.numerics in CHANGES_TRAINING:
        says += [f"{guard.name} could not be judged: {guard.says}" for guard in _open(trial.guards)]
        if not any(_judges_training(parity) for parity in trial.parity):
            says.append(f"{trial.numerics}: what it does to the training was not measured")
    return tuple(says)


def _judges_training(parity: Parity) -> bool:
    """True for a gate on the trajectory, and for losses that did not differ in a single bit."""
    return parity.measure in {"envelope", "metric"} or (parity.measure == "bits" and parity.worst == 0)


def _open(guards: tuple[Guard, ...]) -> list[Guard]:
    return [guard for guard in guards if guard.holds is None]


def _unchecked(trial: Trial) -> tuple[str, ...]:
    """Said aloud, though it does not forbid: what the change promises by its class but nobody compared."""
    if trial.parity or trial.numerics in CHANGES_TRAINING:
        return ()
    return (f"{trial.numerics} by its class; the losses of the two sides were not compared",)


def _missing(ticks: Ticks) -> tuple[str, ...]:
    """Which of the three ticks a fast enough change lacks (ledger A-007)."""
    lacks = []
    if ticks.quantified is None:
        lacks.append("no measured bottleneck stands behind it")
    if ticks.undoable is None:
        lacks.append("nobody checked that it can be taken back")
    return tuple(lacks)


def _undoable(undone: bool | None) -> str | None:
    return "taken back, and every byte was as before" if undone else None


def _decimals(share: float) -> int:
    return 0 if abs(100 * share - round(100 * share)) < 1e-9 else 1
