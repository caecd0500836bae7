"""What a report says, as plain data: every renderer prepares these first and only then formats."""

import math
import statistics
from collections.abc import Iterable
from typing import Literal, NamedTuple

from netdyno.records.diagnosis import Experiment, Finding, Outcome
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.evidence import Place, StepTimeline
from netdyno.records.measured import Interval, Measurement
from netdyno.records.record import Baseline, Record, SmokeCheck
from netdyno.records.trial import Attribution, Change, Interaction, Memory, Parity, Share, Trial, Verdict
from netdyno.reports._units import (
    COUNTS,
    Ranged,
    Unit,
    by_name,
    decimals_for,
    duration,
    fixed,
    number,
    one_line,
    ranged,
    ranged_share,
    ranged_times,
    rate,
    setting,
    share,
    size,
    spoken,
    time_unit,
)
from netdyno.verdicts.attribute import REPEATS
from netdyno.verdicts.compare import Row

NOISE = "not distinguishable from noise"

UNKNOWN = "range not known"

# One spawn or one pair has no spread: its interval is written down as hundreds of steps wide.
BOUNDLESS = 10.0

# How a reader is told what a change does to the numbers, from harmless to far-reaching.
NUMERICS = {
    "same-bits": "same bits",
    "reordered": "sums in another order",
    "lower-precision": "lower precision",
    "other-randomness": "other randomness",
    "other-training": "other training",
}


def bounded(interval: Interval, step: float = 1.0) -> bool:
    """False for an interval so wide, in steps, that it only says that nothing is known."""
    return interval.width < BOUNDLESS * step


class Fact(NamedTuple):
    """One line of a list: a name and what is known about it."""

    name: str
    says: str


# ---------------------------------------------------------------- headline


# What the interval beside the headline's number means (`verdicts.attribute.speedup`).
FOR_A_REPETITION = (
    f"the range is for whoever times it again: where the mean of {REPEATS} more pairs of processes will lie"
)


class HeadlineInfo(NamedTuple):
    """The answer of a run in one sentence, and what must be said beside it."""

    state: Literal["faster", "slower", "noise", "kept", "none", "open"]
    says: str
    speedup: Interval | None
    before: Interval | None
    after: Interval | None
    notes: tuple[str, ...]


def headline(record: Record) -> HeadlineInfo:
    """What came of the run. Only an interval that excludes 1 is called faster or slower."""
    notes = (*_numerics_notes(record), *_open_notes(record))
    total = record.attribution
    if total is not None and record.recipe:
        state, says = _claimed(total)
        return HeadlineInfo(
            state, f"{_memory_claim(record)}{says}", total.speedup, total.baseline_s, total.final_s, notes
        )
    if record.recipe:
        says = f"{_memory_claim(record)}{_counted(len(record.recipe), 'change')} kept; what they save together was not measured"
        return HeadlineInfo("kept", says, None, None, None, notes)
    if record.trials:
        return HeadlineInfo("none", _no_win(record), None, None, None, notes)
    return HeadlineInfo("open", _examined(record) or _nothing_tried(record), None, None, None, notes)


def _examined(record: Record) -> str:
    """The root cause, of a run that was there to find it."""
    if "read_source" not in record.done:
        return ""
    told = [each for each in record.outcomes if each.finding is not None and each.finding.stage != "note"]
    sure = [each for each in told if each.state == "found"]
    if not sure:
        return "no rule found anything" if not told else f"nothing found; suspected: {told[0].rule}"
    assert sure[0].finding is not None
    return f"{sure[0].rule}: {one_line(sure[0].finding.says)}"


def _claimed(total: Attribution) -> tuple[Literal["faster", "slower", "noise"], str]:
    speed = total.speedup
    level = f"{setting(speed.level)}:"
    steps = arrow(total.baseline_s, total.final_s)
    if speed.low > 1:
        middle, between = ranged_times(speed)
        return "faster", f"{middle} faster: {steps} per step ({level} {between})"
    if speed.high < 1:
        turned = Interval(middle=1 / speed.middle, low=1 / speed.high, high=1 / speed.low, level=speed.level)
        middle, between = ranged_times(turned)
        return "slower", f"{middle} slower: {steps} per step ({level} {between})"
    between = ranged_times(speed).range if bounded(speed) else UNKNOWN
    return "noise", f"no proven win: {steps} per step is {NOISE} ({level} {between})"


def arrow(before: Interval, after: Interval) -> str:
    """Two step times in one unit: `12.4 → 6.8 ms`."""
    unit = time_unit(before.middle)
    decimals = decimals_for(before.middle / unit.size)
    return f"{fixed(before.middle / unit.size, decimals)} → {fixed(after.middle / unit.size, decimals)} {unit.sign}"


def _no_win(record: Record) -> str:
    tried = _counted(len(record.trials), "change")
    said = "were" if len(record.trials) != 1 else "was"
    if record.plan.goal == "memory":
        return f"no proven win: {tried} {said} tried, none kept"
    rule = f"all of its interval above {setting(record.plan.least_gain)} of a step, and every guard holds"
    return f"no proven win: {tried} {said} tried, none met the rule ({rule})"


def _nothing_tried(record: Record) -> str:
    if record.baseline is None or not record.baseline.step.samples:
        seen = next((item for item in record.evidence if isinstance(item, StepTimeline)), None)
        if seen is None:
            return "nothing was measured yet"
        return f"{duration(seen.step.own)} per {record.target.item}; no change was tried"
    return f"{duration(statistics.median(record.baseline.step.samples))} per step; no change was tried"


def _numerics_notes(record: Record) -> tuple[str, ...]:
    known = {_key(trial.change): trial.numerics for trial in record.trials}
    classes: dict[str, list[str]] = {}
    for change in record.recipe:
        classes.setdefault(known.get(_key(change), "same-bits"), []).append(one_line(change.label))
    return tuple(
        f"{NUMERICS[name]}: {', '.join(classes[name])}" for name in NUMERICS if name != "same-bits" and name in classes
    )


def _open_notes(record: Record) -> tuple[str, ...]:
    unfinished = () if record.finished else ("the run did not finish; this is what was known when it stopped",)
    failed = tuple(f"{one_line(failure.step)}: {one_line(failure.says)}" for failure in record.failures)
    return (*unfinished, *failed)


def _memory_claim(record: Record) -> str:
    """Under a memory goal: the first kept trial's control against the treatment that ran the whole recipe."""
    start = next((trial.memory_control for trial in record.trials if not trial.against), None)
    whole = frozenset(_key(change) for change in record.recipe)
    end = [
        trial.memory_treatment
        for trial in record.trials
        if frozenset(_key(change) for change in (*trial.against, trial.change)) == whole
    ]
    if record.plan.goal != "memory" or not record.recipe or start is None or not end or end[-1] is None:
        return ""
    before, after = start.activations + start.state, end[-1].activations + end[-1].state
    return f"{size(before)} → {size(after)} of activations and state; "


def _key(change: Change) -> str:
    return repr((change.id, sorted(change.settings.items())))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# ---------------------------------------------------------------- baseline


class BaselineRow(NamedTuple):
    """One measured quantity: its median, the middle half of its samples and what 95 in 100 stay below."""

    part: str
    name: str
    middle: str
    between: str
    most: str
    samples: int


class BaselineInfo(NamedTuple):
    """The four baselines as rows, and what else the end-to-end one says."""

    rows: tuple[BaselineRow, ...]
    facts: tuple[Fact, ...]


def baselines(baseline: Baseline | None, item: str = "item") -> BaselineInfo | None:
    """The performance DNA of a target, or None when it was not taken."""
    if baseline is None:
        return None
    rows = (
        _row("data", "between batches", baseline.data),
        _row("forward", "random input", baseline.forward),
        _row("forward", "zeros", baseline.forward_zeros),
        _row("update", "backward", baseline.backward),
        _row("update", "optimizer", baseline.optimizer),
        _row("end to end", "one step", baseline.step),
    )
    return BaselineInfo(rows, tuple(_baseline_facts(baseline, item)))


def _row(part: str, name: str, measured: Measurement) -> BaselineRow:
    samples = measured.samples
    if not samples:
        return BaselineRow(part, name, "not measured", "", "", 0)
    low, middle, high, most = quartiles(samples)
    if measured.unit != "s":
        return BaselineRow(
            part,
            name,
            f"{number(middle)} {measured.unit}",
            f"{number(low)} to {number(high)}",
            number(most),
            len(samples),
        )
    unit = time_unit(middle)
    decimals = decimals_for(middle / unit.size)
    written = [fixed(value / unit.size, decimals) for value in (low, middle, high, most)]
    return BaselineRow(
        part,
        name,
        f"{written[1]} {unit.sign}",
        f"{written[0]} to {written[2]} {unit.sign}",
        f"{written[3]} {unit.sign}",
        len(samples),
    )


def quartiles(samples: Iterable[float]) -> tuple[float, float, float, float]:
    """The 25th, 50th, 75th and 95th hundredth of samples, linear between neighbours."""
    ordered = sorted(samples)
    return tuple(_quantile(ordered, part) for part in (0.25, 0.5, 0.75, 0.95))  # type: ignore[return-value]


def _quantile(ordered: list[float], part: float) -> float:
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _baseline_facts(baseline: Baseline, item: str) -> Iterable[Fact]:
    if baseline.step.samples:
        per_second = baseline.step.items_per_sample / statistics.median(baseline.step.samples)
        yield Fact("throughput", f"{number(float(round(per_second)))} {one_line(item)}s per second")
    yield Fact("epoch", duration(baseline.epoch_s))
    yield Fact("first batch after", duration(baseline.first_batch_s))
    yield Fact("peak memory", size(baseline.peak_bytes))
    if baseline.memory_slope_bytes:
        yield Fact("memory grows by", f"{size(baseline.memory_slope_bytes)} per step")
    stability = baseline.stability
    if stability is not None:
        yield Fact("loss spread over epochs", _spread(stability.over_epochs, f"{stability.rounds} rounds"))
        yield Fact("loss spread over seeds", _spread(stability.over_seeds, f"{stability.seeds} seeds"))
    if baseline.hash:
        yield Fact("archive", baseline.hash)


def _spread(interval: Interval | None, over: str) -> str:
    if interval is None:
        return f"too few to say ({over})"
    return f"{ranged(interval, Unit(1.0, ''))}, {over}"


# ---------------------------------------------------------------- findings


class FindingInfo(NamedTuple):
    """One thing that holds the model back, ready to be read."""

    id: str
    state: str
    says: str
    layer: str
    saves: str
    evidence: tuple[Fact, ...]
    place: str
    fix: str
    suggests: tuple[str, ...]
    explains: tuple[str, ...]
    confidence: float
    proof: str
    stage: str
    line: str


class DiagnosisInfo(NamedTuple):
    """Findings in the order of the rules' room, and what became of all other rules."""

    findings: tuple[FindingInfo, ...]
    clear: tuple[str, ...]
    skipped: tuple[Fact, ...]
    failed: tuple[Fact, ...]


def diagnosis(outcomes: Iterable[Outcome], experiments: Iterable[Experiment] = ()) -> DiagnosisInfo:
    """What the rules said, what experiments showed of it, and which rules said nothing for which reason."""
    everything = tuple(outcomes)
    proofs = {each.finding: f"{each.verdict}: {one_line(each.says)} ({each.change.label})" for each in experiments}
    return DiagnosisInfo(
        tuple(
            _finding(outcome, outcome.finding, proofs.get(outcome.rule, ""))
            for outcome in everything
            if outcome.finding is not None
        ),
        tuple(outcome.rule for outcome in everything if outcome.state == "clear"),
        tuple(_silence(outcome) for outcome in everything if outcome.state == "skipped"),
        tuple(_silence(outcome) for outcome in everything if outcome.state == "failed"),
    )


# What a finding is about that saves no time; of what is wrong nothing need be said.
COSTS = {"speed": "nothing to save in the model", "failure": "the script ends"}


def _silence(outcome: Outcome) -> Fact:
    return Fact(outcome.rule, one_line(outcome.reason or "no reason was given"))


def _finding(outcome: Outcome, finding: Finding, proof: str = "") -> FindingInfo:
    between = between_shares(finding.saves.low, finding.saves.high)
    saves = f"could save {between} of a step" if finding.saves.high > 0 else COSTS.get(finding.stage, "")
    return FindingInfo(
        id=finding.id or outcome.rule,
        state=outcome.state,
        says=one_line(finding.says),
        layer=finding.layer,
        saves=saves,
        evidence=tuple(Fact(spoken(name), by_name(name, value)) for name, value in finding.because.items()),
        place=place(finding.where),
        fix=one_line(finding.fix),
        suggests=finding.suggests,
        explains=finding.explains,
        confidence=finding.confidence,
        proof=proof,
        stage=finding.stage,
        line=f"{finding.id or outcome.rule}: {one_line(finding.says)}" + (f" ({saves})" if saves else ""),
    )


def between_shares(low: float, high: float) -> str:
    """Two shares with one sign: `20 to 41 %`.

    >>> between_shares(0.2, 0.41), between_shares(0.0, 0.03), between_shares(0.1, 0.1)
    ('20 to 41 %', '0 to 3 %', '10 %')
    """
    decimals = 1 if abs(high - low) < 0.02 and high != low else 0
    first, last = fixed(100 * low, decimals), fixed(100 * high, decimals)
    return f"{last} %" if first == last else f"{first} to {last} %"


def place(where: Place | None) -> str:
    """A place as editors can jump to it: `work.py:34 in Digits.train`."""
    if where is None:
        return ""
    file = where.file and (f"{where.file}:{where.line}" if where.line is not None else where.file)
    parts = (
        file or "",
        f"in {where.module}" if where.module and file else where.module or "",
        f"sample {where.sample}" if where.sample is not None else "",
        f"step {where.step}" if where.step is not None else "",
    )
    return one_line(" ".join(part for part in parts if part))


# ---------------------------------------------------------------- trials


class Check(NamedTuple):
    """One gate or guard of a trial: passed, failed, or not to be judged."""

    name: str
    holds: bool | None
    says: str


class TrialInfo(NamedTuple):
    """One change that was tried: what was expected, what came out, what was decided and why."""

    number: int
    change: str
    label: str
    against: tuple[str, ...]
    form: str
    numerics: str
    layers: tuple[str, ...]
    predicted: tuple[float, float] | None
    why: str
    gain: Interval | None
    decision: Literal["keep", "drop", "undecided", "failed", "open"]
    hit: Literal["as predicted", "less than predicted", "more than predicted"] | None
    reasons: tuple[str, ...]
    ticks: tuple[Fact, ...]
    checks: tuple[Check, ...]
    pairs: int
    saved: tuple[float, ...]
    spawns: tuple[int, ...]
    facts: tuple[Fact, ...]
    failed: str | None
    last_words: str | None

    @property
    def predicted_says(self) -> str:
        """The prediction in words."""
        return between_shares(*self.predicted) if self.predicted else "not predicted"

    @property
    def gain_says(self) -> str:
        """The measured gain in words; no number where none was measured."""
        if self.gain is None:
            return "not measured"
        return str(ranged_share(self.gain)) if bounded(self.gain) else f"{share(self.gain.middle)} ({UNKNOWN})"


def trials(record: Record) -> tuple[TrialInfo, ...]:
    """Every trial of the run in the order of the walk."""
    verdicts = {verdict.trial: verdict for verdict in record.verdicts}
    layers = {proposal.change.id: proposal.layers for proposal in record.proposals}
    return tuple(
        _trial(number, trial, verdicts.get(number), layers.get(trial.change.id, ()))
        for number, trial in enumerate(record.trials)
    )


def _trial(number: int, trial: Trial, verdict: Verdict | None, layers: tuple[str, ...]) -> TrialInfo:
    gain = verdict.gain if verdict else None
    predicted = (trial.prediction.low, trial.prediction.high) if trial.prediction else None
    return TrialInfo(
        number=number,
        change=trial.change.id,
        label=one_line(trial.change.label),
        against=tuple(one_line(change.label) for change in trial.against),
        form="in one process" if trial.form == "in-process" else "between processes",
        numerics=NUMERICS[trial.numerics],
        layers=layers,
        predicted=predicted,
        why=one_line(trial.prediction.why) if trial.prediction else "",
        gain=gain,
        decision=_decision(trial, verdict),
        hit=_hit(predicted, gain),
        reasons=tuple(one_line(reason) for reason in verdict.reasons) if verdict else (),
        ticks=_ticks(verdict),
        checks=(*map(_parity, trial.parity), *(Check(g.name, g.holds, one_line(g.says)) for g in trial.guards)),
        pairs=min(len(trial.control.samples), len(trial.treatment.samples)),
        saved=saved_shares(trial),
        spawns=trial.spawns,
        facts=tuple(_trial_facts(trial, gain)),
        failed=one_line(trial.failed) if trial.failed is not None else None,
        last_words=trial.last_words,
    )


def saved_shares(trial: Trial) -> tuple[float, ...]:
    """Of each pair, the share of the control's step that the treatment saved."""
    pairs = zip(trial.control.samples, trial.treatment.samples, strict=False)
    return tuple(1 - treatment / control for control, treatment in pairs if control > 0)


def _decision(trial: Trial, verdict: Verdict | None) -> Literal["keep", "drop", "undecided", "failed", "open"]:
    if trial.failed is not None:
        return "failed"
    return verdict.decision if verdict else "open"


def _hit(
    predicted: tuple[float, float] | None, gain: Interval | None
) -> Literal["as predicted", "less than predicted", "more than predicted"] | None:
    if predicted is None or gain is None or not bounded(gain):
        return None
    if gain.high < predicted[0]:
        return "less than predicted"
    return "more than predicted" if gain.low > predicted[1] else "as predicted"


def _ticks(verdict: Verdict | None) -> tuple[Fact, ...]:
    if verdict is None or verdict.ticks is None:
        return ()
    ticks = verdict.ticks
    named = (("quantified", ticks.quantified), ("undoable", ticks.undoable), ("attributable", ticks.attributable))
    return tuple(Fact(name, one_line(says) if says else "missing") for name, says in named)


def _parity(parity: Parity) -> Check:
    if parity.measure == "bits":
        says = "equal to the last bit" if parity.holds else f"differs by {number(parity.worst)}"
    else:
        says = f"{_small(parity.worst)} off at worst, {_small(parity.allowed)} allowed ({parity.measure})"
    return Check(one_line(parity.output), parity.holds, says)


def _small(value: float) -> str:
    return f"{value:.1e}" if value and abs(value) < 1e-3 else number(value, 2)


def _trial_facts(trial: Trial, gain: Interval | None) -> Iterable[Fact]:
    if gain is not None and bounded(gain):
        yield Fact("interval", f"at {confidence(gain.level)}")
    if trial.spawns:
        yield Fact("spawns", f"{len(set(trial.spawns))} of each side")
    if trial.planned_pairs:
        yield Fact("planned", _counted(trial.planned_pairs, "pair"))
    if trial.steps_per_turn > 1:
        yield Fact("turn", f"{trial.steps_per_turn} steps")
    if trial.rerun:
        yield Fact("run again", f"{_counted(trial.rerun, 'turn')} with too much waiting")
    if trial.noise is not None:
        yield Fact("noise of one pair", share(trial.noise))
    waiting = max(trial.control.waiting_share, trial.treatment.waiting_share)
    yield Fact("waiting for a core", share(waiting))
    if trial.setup_s:
        yield Fact("set-up", f"{duration(trial.setup_s)} before the first step")
    if trial.memory_control and trial.memory_treatment:
        yield Fact("memory", _memory_change(trial.memory_control, trial.memory_treatment))
    if trial.checksums:
        same = trial.checksums[0] == trial.checksums[1]
        yield Fact("first batches", "same on both sides" if same else "differ")
    yield Fact("cost", duration(trial.cost_s))


def _memory_change(control: Memory, treatment: Memory) -> str:
    if control.peak is not None and treatment.peak is not None:
        return f"peak {size(control.peak)} → {size(treatment.peak)}"
    return f"activations {size(control.activations)} → {size(treatment.activations)}"


# ---------------------------------------------------------------- waterfall


class WaterfallRow(NamedTuple):
    """One bar. `start` and `end` are seconds per step: where the bar hangs between baseline and final."""

    kind: Literal["baseline", "change", "residual", "final"]
    label: str
    seconds: Interval
    start: float
    end: float
    part: float | None = None
    note: str = ""
    forward: Interval | None = None
    backward: Interval | None = None
    left_out: Interval | None = None
    trial: int | None = None
    numerics: str = ""

    @property
    def effect(self) -> tuple[str, Interval]:
        """What the row does to a step, and by how much; no verb where the sign is not certain."""
        gain = self.seconds
        if self.kind in ("baseline", "final") or gain.holds(0.0):
            return "", gain
        if gain.middle > 0:
            return "saves", gain
        return "costs", Interval(middle=-gain.middle, low=-gain.high, high=-gain.low, level=gain.level)


def _seconds(interval: Interval, step: Interval, unit: Unit, decimals: int) -> Ranged:
    written = ranged(interval, unit, decimals)
    return written if bounded(interval, step.middle) else Ranged(written.middle, UNKNOWN)


class WaterfallInfo(NamedTuple):
    """The total gain piece by piece. All numbers are shown in `unit` with `decimals`."""

    rows: tuple[WaterfallRow, ...]
    total: Interval
    speedup: Interval
    unit: Unit
    decimals: int
    widest: float
    closes: str
    interactions: tuple[str, ...]
    how: str

    def parts(self, interval: Interval) -> Ranged:
        """An interval of seconds in the unit of this waterfall: its middle, and its range where that is known."""
        return _seconds(interval, self.rows[0].seconds, self.unit, self.decimals)

    def says(self, interval: Interval | None) -> str:
        """The same as one phrase."""
        return str(self.parts(interval)) if interval else ""


def waterfall(record: Record) -> WaterfallInfo | None:
    """Baseline, one bar per kept change, what they don't explain, final; None when nothing was attributed."""
    total = record.attribution
    if total is None:
        return None
    numerics = {_key(trial.change): NUMERICS[trial.numerics] for trial in record.trials}
    rows = tuple(_bars(total, numerics))
    unit = time_unit(total.baseline_s.middle)
    decimals = decimals_for(total.baseline_s.middle / unit.size, 4)
    return WaterfallInfo(
        rows=rows,
        total=total.total,
        speedup=total.speedup,
        unit=unit,
        decimals=decimals,
        widest=max(map(_reach, rows)),
        closes=_closes(total, unit, decimals),
        interactions=tuple(_interaction(each, total, unit, decimals) for each in total.interactions),
        how=_ladder(total),
    )


def _reach(row: WaterfallRow) -> float:
    """How far to the right a row is drawn, in seconds."""
    tip = row.seconds.high if row.kind in ("baseline", "final") and bounded(row.seconds, row.seconds.middle) else 0.0
    return max(row.start, row.end, tip)


def _bars(total: Attribution, numerics: dict[str, str]) -> Iterable[WaterfallRow]:
    here = total.baseline_s.middle
    yield WaterfallRow("baseline", "baseline", total.baseline_s, 0.0, here)
    for one in total.shares:
        yield _bar(one, here, total, numerics.get(_key(one.change), ""))
        here -= one.gain.middle
    unexplained = NOISE if total.residual.holds(0.0) else "more than noise: the rows do not tell the whole story"
    yield WaterfallRow(
        "residual",
        "not explained",
        total.residual,
        here,
        here - total.residual.middle,
        _part(total.residual, total),
        unexplained,
    )
    yield WaterfallRow("final", "final", total.final_s, 0.0, total.final_s.middle)


def _bar(one: Share, here: float, total: Attribution, numerics: str) -> WaterfallRow:
    return WaterfallRow(
        kind="change",
        label=one_line(one.change.label),
        seconds=one.gain,
        start=here,
        end=here - one.gain.middle,
        part=_part(one.gain, total),
        note=NOISE if one.gain.holds(0.0) else "",
        forward=one.forward,
        backward=one.backward,
        left_out=one.left_out,
        trial=one.trial,
        numerics=numerics,
    )


def _part(gain: Interval, total: Attribution) -> float | None:
    """The share of the total, unless the total itself is noise and shares of it mean nothing."""
    return None if total.total.holds(0.0) or not total.total.middle else gain.middle / total.total.middle


def _closes(total: Attribution, unit: Unit, decimals: int) -> str:
    rows = sum(one.gain.middle for one in total.shares) + total.residual.middle
    written = _seconds(total.total, total.baseline_s, unit, decimals)
    if fixed(rows / unit.size, decimals) == fixed(total.total.middle / unit.size, decimals):
        return f"rows and residual add up to the measured total of {written} per step"
    return (
        f"rows and residual add up to {fixed(rows / unit.size, decimals)} {unit.sign}, "
        f"and the total was measured as {written}: do not trust the split"
    )


def _interaction(each: Interaction, total: Attribution, unit: Unit, decimals: int) -> str:
    term = _seconds(each.term, total.baseline_s, unit, decimals)
    label = one_line(each.change.label)
    if not each.distinguishable:
        return f"{label}: no interaction with the others seen; {term} per step is {NOISE}"
    if each.term.middle < 0:
        return f"{label}: overlaps with the others, {term} per step that both would win alone"
    return f"{label}: works better in company, {term} per step that neither wins alone"


def _ladder(total: Attribution) -> str:
    spawns = max((len(arm.times) for arm in total.arms), default=0)
    rounds = max((len(row) for arm in total.arms for row in arm.times), default=0)
    where = "between processes" if total.form == "processes" else "in one process"
    arms = _counted(len(total.arms), "recipe")
    apart = len(total.check_baseline)
    checked = f"; baseline and final were measured once more, apart, in {_counted(apart, 'spawn')}" if apart else ""
    return (
        f"{arms} in turns {where}, {spawns} × {rounds} turns each, in {duration(total.cost_s)}{checked}"
        if spawns
        else ""
    )


# ---------------------------------------------------------------- what was not tried, how it was measured, where


class NotTriedInfo(NamedTuple):
    """A change that was considered and not tried."""

    label: str
    layers: tuple[str, ...]
    predicted: str
    why: str


def not_tried(record: Record) -> tuple[NotTriedInfo, ...]:
    """Proposals without a trial, each with its reason."""
    # The walk tries an intervention, then picks its setting: another setting of a tried one is not a change left out.
    tried = {trial.change.id for trial in record.trials}
    least = record.plan.least_gain
    left = (proposal for proposal in record.proposals if proposal.change.id not in tried)
    unreached = "the walk ended without it" if record.finished else "the run stopped before it"
    return tuple(
        NotTriedInfo(
            one_line(proposal.change.label),
            proposal.layers,
            "" if proposal.refused else between_shares(proposal.predicted_low, proposal.predicted_high),
            one_line(proposal.refused or unreached)
            + (
                f"; the least gain is {setting(least)}"
                if not proposal.refused and proposal.predicted_high < least
                else ""
            ),
        )
        for proposal in left
    )


class RecipeRow(NamedTuple):
    """One kept change and the edit a person would make."""

    label: str
    numerics: str
    code: str
    trial: int | None


def recipe(record: Record) -> tuple[RecipeRow, ...]:
    """The kept changes in the order of the walk."""
    shares = {_key(one.change): one for one in record.attribution.shares} if record.attribution else {}
    kept = {_key(trial.change): (number, NUMERICS[trial.numerics]) for number, trial in enumerate(record.trials)}
    rows = []
    for change in record.recipe:
        number, numerics = kept.get(_key(change), (None, ""))
        one = shares.get(_key(change))
        rows.append(RecipeRow(one_line(change.label), numerics, one.code if one else "", number))
    return tuple(rows)


def measured(record: Record) -> tuple[Fact, ...]:
    """How the numbers came about: what a sceptic asks first."""
    return (*_trial_method(record), *_instrument(record), *_policy(record), *_where(record), *_cost(record))


def _trial_method(record: Record) -> Iterable[Fact]:
    run = [trial for trial in record.trials if trial.failed is None]
    if not run:
        return
    pairs = sum(min(len(trial.control.samples), len(trial.treatment.samples)) for trial in run)
    yield Fact(
        "pairs", f"{number(pairs)} in {_counted(len(run), 'trial')}; control and treatment in random order within each"
    )
    apart = [trial for trial in run if trial.form == "processes"]
    inside = len(run) - len(apart)
    if inside:
        yield Fact("in one process", f"{_counted(inside, 'trial')}: the change is switched between turns")
    if apart:
        spawns = sorted({len(set(trial.spawns)) for trial in apart})
        times_each = " or ".join(number(count) for count in spawns)
        yield Fact(
            "between processes",
            f"{_counted(len(apart), 'trial')}, {times_each} spawns of each side; the other side is frozen",
        )
    waiting = max(max(trial.control.waiting_share, trial.treatment.waiting_share) for trial in run)
    yield Fact("what counts", "time on a core plus time blocked; waiting for a core that others had is left out")
    yield Fact(
        "waiting for a core", f"{share(waiting)} of wall time at most, {setting(record.plan.waiting_limit)} allowed"
    )
    again = sum(trial.rerun for trial in run)
    if again:
        yield Fact("run again", f"{_counted(again, 'turn')} with too much waiting")
    noises = [trial.noise for trial in run if trial.noise is not None]
    if noises:
        yield Fact("noise of one pair", f"{share(statistics.median(noises))} (A against A)")


def _instrument(record: Record) -> Iterable[Fact]:
    timeline = next((item for item in record.evidence if isinstance(item, StepTimeline)), None)
    if timeline is not None and timeline.step.own:
        part = timeline.own_overhead_s / timeline.step.own
        yield Fact("stopwatch", f"{duration(timeline.own_overhead_s)} per step ({share(part)} of it)")
        yield Fact("explained", f"{fixed(100 * timeline.explained, 1)} % of a step's wall time by named phases")


def _policy(record: Record) -> Iterable[Fact]:
    plan = record.plan
    if plan.goal == "memory":
        most = f", at most {size(plan.memory_budget)}" if plan.memory_budget else ""
        yield Fact("goal", f"less memory{most}, for at most {setting(plan.time_price)} of a step")
    else:
        yield Fact(
            "kept if", f"all of the saved share's interval lies above {setting(plan.least_gain)}, and no guard fails"
        )
    yield Fact(
        "error budget", f"{setting(plan.error)} for the whole run, shared by all trials and looks{_levels(record)}"
    )
    yield Fact("seed", number(plan.seed))


def _levels(record: Record) -> str:
    """At which confidence the trials' intervals hold, since the budget is shared out among them."""
    levels = [verdict.gain.level for verdict in record.verdicts if verdict.gain is not None and bounded(verdict.gain)]
    if not levels:
        return ""
    low, high = confidence(min(levels)), confidence(max(levels))
    return f"; a trial's interval holds at {low}" + (f" to {high}" if high != low else "")


def confidence(level: float) -> str:
    """A level of confidence, rounded down: it is never said to be more than it is.

    >>> confidence(0.95), confidence(0.99912), confidence(0.99999)
    ('95 %', '99.91 %', '99.99 %')
    """
    return f"{math.floor(1e4 * level + 1e-6) / 100:g} %"


def _where(record: Record) -> Iterable[Fact]:
    where = record.environment
    if where:
        threads = _counted(where.threads, "thread")
        python = f"Python {where.python}" if where.python[:1].isdigit() else where.python
        yield Fact("on", one_line(f"{where.processor}, {threads}, torch {where.torch}, {python}"))


def _cost(record: Record) -> Iterable[Fact]:
    if record.wall_s:
        probes = sum(item.cost_s for item in (*record.evidence, *record.after))
        tried = sum(trial.cost_s for trial in record.trials)
        parts = [f"{duration(probes)} for evidence"] if probes else []
        parts += [f"{duration(tried)} for trials"] if tried else []
        parts += [f"{duration(record.attribution.cost_s)} for the waterfall"] if record.attribution else []
        yield Fact("took", f"{duration(record.wall_s)}{': ' if parts else ''}{', '.join(parts)}")


def environment(where: Environment | None, ceilings: Ceilings | None = None) -> tuple[Fact, ...]:
    """The machine and the software, and what the machine can do at best."""
    return (*(_environment_facts(where) if where else ()), *(_ceiling_facts(ceilings) if ceilings else ()))


def _environment_facts(where: Environment) -> Iterable[Fact]:
    yield Fact("machine", one_line(where.machine))
    yield Fact("processor", one_line(where.processor))
    yield Fact("cores", f"{where.cores}, {_counted(where.threads, 'thread')} used")
    yield Fact("memory", size(where.memory_bytes))
    yield Fact("device", one_line(where.device))
    if where.driver:
        yield Fact("driver", one_line(where.driver))
    yield Fact("system", one_line(where.system))
    yield Fact("python", one_line(where.python))
    yield Fact("torch", one_line(where.torch))
    for name, value in where.flags.items():
        yield Fact(one_line(name), one_line(value))
    yield Fact("identity", one_line(where.id))
    if where.taken_at:
        yield Fact("taken", one_line(where.taken_at))


def _ceiling_facts(ceilings: Ceilings) -> Iterable[Fact]:
    for dtype, flops in ceilings.matmul.items():
        ridge = f", ridge at {number(flops / ceilings.bandwidth)} FLOP/byte" if ceilings.bandwidth else ""
        yield Fact(f"matrix rate, {one_line(dtype)}", f"{rate(flops, 'FLOP/s')}{ridge}")
    yield Fact("memory bandwidth", rate(ceilings.bandwidth, "B/s"))


class SmokeInfo(NamedTuple):
    """One line of the smoke baseline."""

    name: str
    state: Literal["ok", "wrong", "not checked"]
    says: str
    hint: str


def smoke(checks: Iterable[SmokeCheck]) -> tuple[SmokeInfo, ...]:
    """What the smoke baseline found, faults first."""
    state: dict[bool | None, Literal["ok", "wrong", "not checked"]] = {True: "ok", False: "wrong", None: "not checked"}
    lines = [SmokeInfo(one_line(c.name), state[c.ok], one_line(c.says), one_line(c.hint)) for c in checks]
    return tuple(sorted(lines, key=lambda line: ("wrong", "not checked", "ok").index(line.state)))


class ComparedInfo(NamedTuple):
    """One quantity of two runs, as it is read."""

    quantity: str
    before: str
    after: str
    change: str
    note: str


def compared(row: Row) -> ComparedInfo:
    """A row of a comparison: both values in their unit, the change in per cent, or why there is none."""
    before, after = (_in_its_unit(value, row.unit) for value in (row.before, row.after))
    change = "" if row.change is None else f"{'+' if row.change > 0 else ''}{share(row.change)}"
    return ComparedInfo(one_line(row.quantity), before, after, change, one_line(row.reason))


def _in_its_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "s":
        return duration(value)
    if unit == "B":
        return size(value)
    return number(value) if unit == "1" else f"{number(value)} {unit}"


def step_counts(record: Record) -> Fact | None:
    """How many items pass in a second before and after, when the two can be told apart."""
    total = record.attribution
    if total is None or not record.recipe or total.speedup.holds(1.0):
        return None
    items = record.target.items_per_step
    before, after = items / total.baseline_s.middle, items / total.final_s.middle
    return Fact(f"{one_line(record.target.item)}s per second", f"{_short(before)} → {_short(after)}")


def _short(value: float) -> str:
    unit = next((unit for unit in reversed(COUNTS[:3]) if value >= unit.size * 100), COUNTS[0])
    scaled = value / unit.size
    return f"{fixed(scaled, decimals_for(scaled))}{unit.sign}"
