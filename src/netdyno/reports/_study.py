"""A search for a better model made readable: first what is shown, as plain tuples, then the terminal and the JSON."""

import math
from collections.abc import Iterable
from statistics import fmean
from typing import NamedTuple

import msgspec

from netdyno.records.measured import Interval
from netdyno.records.study import Curve, Option, Run, Rung, Study, Sweep
from netdyno.records.trial import Change
from netdyno.reports import _info as info
from netdyno.reports import text
from netdyno.reports._units import duration, number
from netdyno.verdicts.study import ordered_by_worth, tagged

NARROW = 72
# Trainings that a search over all knobs found something with (docs/results/learn.md); fewer were not looked at.
WANTED = 60
MARKS = {"kept": "+", "no better": "-", "not distinguishable": "~", "refused": " ", "failed": "!", "not run": " "}


class SweepInfo(NamedTuple):
    """One knob: its question, its answer, and a line for each setting."""

    knob: str
    stage: str
    asks: str
    reason: str
    verdict: str
    says: str
    options: tuple[tuple[str, str, str], ...]  # setting, mean score, difference to the control
    among: str
    curves: tuple[Curve, ...]
    seconds: str


class StudyInfo(NamedTuple):
    """All that a report of a search shows."""

    headline: str
    state: str
    under: str
    noise: str
    recipe: tuple[tuple[str, str], ...]
    tiers: tuple[info.Fact, ...]
    kept: tuple[SweepInfo, ...]
    others: tuple[SweepInfo, ...]
    silent: tuple[tuple[str, str, str], ...]  # knob, verdict, reason
    columns: tuple[str, ...]
    ladder: tuple[tuple[str, ...], ...]
    advice: tuple[str, ...]
    failures: tuple[str, ...]
    front: tuple[tuple[float, float, bool], ...]  # seconds of a run, score, on the front
    spent: tuple[info.Fact, ...]


def study_info(study: Study) -> StudyInfo:
    """What is to be shown of a search."""
    told = [_sweep(each) for each in study.sweeps]
    columns = tuple(study.ladder[0].cells) if study.ladder else ()
    return StudyInfo(
        headline=_headline(study),
        state="well" if study.recipe else "open",
        under=_under(study),
        noise=study.noise,
        recipe=tuple((change.id, in_words(change)) for change in study.recipe),
        tiers=tuple(info.Fact(tier.name, _tier(tier.ok, tier.says)) for tier in study.tiers),
        # What wins most for a minute of a person's time stands first (ledger A-037).
        kept=tuple(_sweep(each) for each in ordered_by_worth(study.sweeps) if each.verdict == "kept"),
        others=tuple(each for each in told if each.verdict in ("no better", "not distinguishable", "failed")),
        silent=tuple((each.knob, each.verdict, each.says) for each in told if each.verdict in ("refused", "not run")),
        columns=columns,
        ladder=tuple(_rung(rung, columns) for rung in study.ladder),
        advice=study.advice,
        failures=study.failures,
        front=tuple((one.seconds, one.score, one.on_front) for one in study.candidates),
        spent=tuple(info.Fact(stage, duration(seconds)) for stage, seconds in study.spent.items() if seconds),
    )


def in_words(change: Change) -> str:
    """A setting in a few words."""
    return (
        ", ".join(
            f"{name} {number(value) if isinstance(value, float) else value}" for name, value in change.settings.items()
        )
        or "on"
    )


def _headline(study: Study) -> str:
    silence = "" if study.finished else ", and the search is not finished"
    if not study.recipe and study.finished and not _tried(study):
        took = fmean([run.seconds for run in study.runs if run.score is not None] or [0.0])
        wants = f"a training takes {duration(took)}, and a search wants about {WANTED} of them"
        return f"there was no time to try anything: {wants} (`--budget {math.ceil(WANTED * took / 60)}m`)"
    if not study.recipe:
        return f"nothing is better than the start beyond noise{silence}"
    total = _total(study)
    if total is None:
        return f"{len(study.recipe)} changes kept{silence}"
    middle, low, high = (number(part) for part in (total.middle, total.low, total.high))
    return f"score {_signed(middle)} ({_signed(low)} to {_signed(high)}) with {len(study.recipe)} change{'s' * (len(study.recipe) > 1)}{silence}"


def _tried(study: Study) -> bool:
    """Whether any change has trained to its end, or failed by itself."""
    return any(each.options for each in study.sweeps) or any(run.recipe and run.course for run in study.runs)


def _signed(number_: str) -> str:
    return number_ if number_.startswith(("-", "−")) else f"+{number_}"


def _total(study: Study) -> Interval | None:
    """The whole gain, on seeds that chose nothing."""
    if len(study.ladder) < 2 or study.ladder[-1].recipe != study.recipe:
        return None
    last = study.ladder[-1]
    if last.name == "together" or len(study.ladder) == 2:
        return last.cells["score"].delta
    return None


def _under(study: Study) -> str:
    seeds = len(study.plan.seeds)
    return f"{study.target}, {len(study.runs)} training runs in {duration(study.wall_s)}, {seeds} seeds; id {study.id}"


def _tier(ok: bool | None, says: str) -> str:
    return f"{'yes' if ok else 'not known' if ok is None else 'NO'}: {says}"


def _sweep(sweep: Sweep) -> SweepInfo:
    alike = [sweep.options[at].says for at in sweep.among if at != sweep.chosen]
    return SweepInfo(
        knob=sweep.knob,
        stage=sweep.stage,
        asks=sweep.asks,
        reason=sweep.reason,
        verdict=sweep.verdict,
        says=sweep.says,
        options=tuple(
            (
                option.says,
                option.refused or option.failed or ("" if option.mean is None else number(option.mean, 4)),
                _effect(option, together=sweep.knob.startswith("joint ")),
            )
            for option in sweep.options
        ),
        among=f"not distinguishable from it: {', '.join(alike)}" if alike else "",
        curves=sweep.curves,
        seconds=duration(sweep.seconds),
    )


def _effect(option: Option, *, together: bool) -> str:
    """What a setting changes; of a joint recipe only all of it was measured, and no part alone."""
    if option.effect is None or len(option.scores) < 2:
        return ""
    return "with the others" if together else ranged(option.effect)


def ranged(interval: Interval) -> str:
    """A difference with its interval; what is known of one pair only has none."""
    if interval.high - interval.low > 1e5:
        return _signed(number(interval.middle))
    return f"{_signed(number(interval.middle))} ({_signed(number(interval.low))} to {_signed(number(interval.high))})"


def _rung(rung: Rung, columns: tuple[str, ...]) -> tuple[str, ...]:
    cells = [rung.name]
    for name in columns:
        cell = rung.cells.get(name)
        if cell is None or cell.value is None:
            cells.append("")
            continue
        value = duration(cell.value.middle) if name == "seconds" else number(cell.value.middle, 4)
        if cell.delta is None:
            cells.append(value)
        elif cell.told:
            cells.append(f"{value}, {ranged(cell.delta)}")
        else:
            cells.append(f"{value}, not distinguishable")
    return tuple(cells)


def render(study: Study, *, everything: bool = False, width: int = 100, colour: bool = False) -> str:
    """The answer first, then what each knob's own experiment said."""
    return text._printed(_parts(study_info(study), everything=everything, width=width), width=width, colour=colour)


def _parts(told: StudyInfo, *, everything: bool, width: int) -> Iterable[text.Part]:
    yield text._said(told.headline, "bold green" if told.state == "well" else "bold")
    yield text._said(told.under, "dim")
    if told.noise:
        yield text._said(told.noise)
    if told.recipe:
        yield from text._heading("The recipe")
        yield text._pairs(told.recipe)
    if told.tiers:
        yield from text._facts("The objective, tier by tier", told.tiers)
    if told.ladder:
        yield from text._heading("The ladder, each row against the one above")
        yield _ladder(told, width)
    for title, sweeps in (("Kept, each by its own sweep", told.kept), ("Tried, and not kept", told.others)):
        if sweeps:
            yield from text._heading(title)
            for each in sweeps:
                yield from _told(each, full=everything or each.verdict == "kept")
    yield from _rest(told, everything=everything)


def _ladder(told: StudyInfo, width: int) -> text.Part:
    if width < NARROW:
        return text._pairs(
            (row[0], "; ".join(f"{name} {cell}" for name, cell in zip(told.columns, row[1:], strict=True) if cell))
            for row in told.ladder
        )
    table = text._table(("", {}), *((name, {}) for name in told.columns))
    for row in told.ladder:
        table.add_row(*map(text._said, row))
    return table


def _told(each: SweepInfo, *, full: bool) -> Iterable[text.Part]:
    yield text._said(f"{MARKS[each.verdict]} {each.knob} ({each.stage}): {each.says}")
    if not full:
        return
    yield text._indented(text._said(f"{each.asks} {each.reason}; {each.seconds}", "dim"))
    yield text._indented(
        text._pairs(
            (setting, "  ".join(part for part in (mean, effect) if part)) for setting, mean, effect in each.options
        )
    )
    if each.among:
        yield text._indented(text._said(each.among, "dim"))


def _rest(told: StudyInfo, *, everything: bool) -> Iterable[text.Part]:
    if told.advice:
        yield from text._heading("The data")
        yield from (text._said(each) for each in told.advice)
    yield text._said("")
    yield from (text._said(each, "yellow") for each in told.failures)
    if told.silent and everything:
        yield from (text._said(f"{knob}: {verdict}, {why}", "dim") for knob, verdict, why in told.silent)
    elif told.silent:
        names = ", ".join(knob for knob, _, _ in told.silent)
        yield text._said(f"not tried: {names} (`--everything` says why)", "dim")


def runs(study: Study, tag: str, *, width: int = 100, colour: bool = False) -> str:
    """The training runs of a stage or a knob, a line each."""
    lines = (
        (
            f"{run.stage} {run.knob}, seed {run.seed}",
            f"{_reached(run)}  {', '.join(c.label for c in run.recipe) or 'start'}",
        )
        for run in tagged(study.runs, tag)
    )
    return text._printed((text._pairs(lines),), width=width, colour=colour)


def _reached(run: Run) -> str:
    return run.failed or ("" if run.score is None else number(run.score, 4))


def as_json(study: Study, *, indent: int = 2) -> str:
    """The document itself, for other programs."""
    return msgspec.json.format(msgspec.json.encode(study), indent=indent).decode()
