"""A run as one HTML file that opens from disk: no network, dark and light, by keyboard, on a phone, on paper."""

from typing import TYPE_CHECKING, NamedTuple

from netdyno.records.measured import Interval, Split
from netdyno.records.record import Record
from netdyno.reports import _info as info
from netdyno.reports import _pictures as pictures
from netdyno.reports import _script as scripts
from netdyno.reports._page import rendered
from netdyno.reports._units import duration, fixed, number, plain, ranged_time, rate, setting, share, size

if TYPE_CHECKING:
    from markupsafe import Markup


class Span(NamedTuple):
    """Where something lies on a track, in per cent of the track's width."""

    left: float
    width: float


class BarInfo(NamedTuple):
    """One row of the waterfall with the places of its bar and of its interval."""

    row: info.WaterfallRow
    bar: Span
    whisker: Span | None
    middle: str
    between: str


class ForecastInfo(NamedTuple):
    """A prediction beside its outcome, on one scale for all trials."""

    trial: info.TrialInfo
    predicted: Span | None
    measured: Span | None
    middle: float | None
    svg: str
    caption: str


class Tile(NamedTuple):
    """One number that a reader looks for first."""

    name: str
    says: str
    under: str


class PageInfo(NamedTuple):
    """All that the page shows. The template formats and decides nothing."""

    record: Record
    title: str
    headline: info.HeadlineInfo
    big: str
    rest: str
    tiles: tuple[Tile, ...]
    waterfall: info.WaterfallInfo | None
    bars: tuple[BarInfo, ...]
    recipe: tuple[info.RecipeRow, ...]
    script: scripts.ScriptInfo | None
    diagnosis: info.DiagnosisInfo
    forecasts: tuple[ForecastInfo, ...]
    zero: float
    least: float
    timeline: pictures.TimelineInfo | None
    baseline: info.BaselineInfo | None
    memory: pictures.MemoryInfo | None
    roofline: pictures.RooflineInfo | None
    not_tried: tuple[info.NotTriedInfo, ...]
    smoke: tuple[info.SmokeInfo, ...]
    measured: tuple[info.Fact, ...]
    environment: tuple[info.Fact, ...]


def render(record: Record) -> str:
    """The page, complete in itself: styles, script, charts and the record are inside."""
    from markupsafe import Markup

    page = page_info(record)
    return rendered(
        "report.html",
        page=page,
        document=record,
        filters={
            "duration": duration,
            "share": share,
            "setting": setting,
            "size": size,
            "number": number,
            "fixed": fixed,
            "of": _part_of,
            "rate": rate,
            "verbatim": _verbatim,
        },
        decided=_DECIDED,
        for_a_repetition=info.FOR_A_REPETITION,
        roofline_svg=Markup(_roofline(page.roofline)),  # noqa: S704 - matplotlib escapes its text
        svg=Markup,  # for our charts only: matplotlib escapes their text
        span=page.waterfall.parts if page.waterfall else None,
    )


_DECIDED = {
    "keep": ("✓", "kept"),
    "drop": ("✗", "dropped"),
    "undecided": ("?", "undecided"),
    "failed": ("!", "failed"),
    "open": ("…", "no verdict"),
}


def _verbatim(text: str) -> "Markup":
    """Code and other people's words, escaped, with every space as it was."""
    from markupsafe import escape

    return escape(plain(text))


def page_info(record: Record) -> PageInfo:
    """Everything the page shows, ready to be placed."""
    told = info.headline(record)
    big, rest = _split(told)
    falls = info.waterfall(record)
    tried = info.trials(record)
    low, high = _forecast_scale(tried, record.plan.least_gain)
    return PageInfo(
        record=record,
        title=plain(record.target.name),
        headline=told,
        big=big,
        rest=rest,
        tiles=tuple(_tiles(record, tried)),
        waterfall=falls,
        bars=tuple(_bar(row, falls) for row in falls.rows) if falls else (),
        recipe=info.recipe(record),
        script=scripts.script(record),
        diagnosis=info.diagnosis(record.outcomes, record.experiments),
        forecasts=tuple(_forecast(one, low, high, record.plan.least_gain) for one in tried),
        zero=_place(0.0, low, high),
        least=_place(record.plan.least_gain, low, high),
        timeline=pictures.timeline(record),
        baseline=info.baselines(record.baseline, record.target.item),
        memory=pictures.memory(record),
        roofline=pictures.roofline(record),
        not_tried=info.not_tried(record),
        smoke=info.smoke(record.smoke),
        measured=info.measured(record),
        environment=info.environment(record.environment, record.ceilings),
    )


def _split(told: info.HeadlineInfo) -> tuple[str, str]:
    """A proven factor is set large, and the sentence goes on after it."""
    big, _, rest = told.says.partition(" ")
    return (big, rest) if big.endswith("×") else ("", told.says)


def _tiles(record: Record, tried: tuple[info.TrialInfo, ...]) -> list[Tile]:
    tiles = []
    total = record.attribution
    if total is not None and record.recipe:
        unit_says = info.arrow(total.baseline_s, total.final_s)
        tiles.append(
            Tile("time per step", unit_says, f"baseline {_between(total.baseline_s)}, final {_between(total.final_s)}")
        )
    counts = info.step_counts(record)
    if counts:
        tiles.append(Tile(counts.name, counts.says, f"{number(record.target.items_per_step)} per step"))
    if tried:
        pairs = sum(one.pairs for one in tried)
        changes = len({trial.change.id for trial in record.trials})
        tiles.append(Tile("changes kept", f"{len(record.recipe)} of {changes} tried", f"in {number(pairs)} pairs"))
    if record.baseline is not None:
        account = pictures.memory(record)
        peak = record.baseline.peak_bytes
        under = f"{share(peak / account.available)} of what was free" if account and account.available else "baseline"
        tiles.append(Tile("peak memory", size(peak), under))
    if record.wall_s:
        tiles.append(Tile("run", duration(record.wall_s), record.made_at[:10]))
    return tiles


def _between(interval: Interval) -> str:
    return ranged_time(interval).range if info.bounded(interval, interval.middle) else info.UNKNOWN


def _bar(row: info.WaterfallRow, falls: info.WaterfallInfo) -> BarInfo:
    """A change's interval is drawn where its bar ends; that of baseline and final at their tips."""
    whole = row.kind in ("baseline", "final")
    ends = (row.seconds.low, row.seconds.high) if whole else (row.start - row.seconds.high, row.start - row.seconds.low)
    verb, interval = row.effect
    middle, between = falls.parts(interval)
    places = (
        _span(row.start, row.end, 0.0, falls.widest),
        _span(*ends, 0.0, falls.widest) if info.bounded(row.seconds, falls.widest) else None,
    )
    return BarInfo(row, *places, f"{verb} {middle}".strip(), between)


def _span(first: float, last: float, low: float, high: float) -> Span:
    left, right = sorted((_place(first, low, high), _place(last, low, high)))
    return Span(left, round(right - left, 3))


def _place(value: float, low: float, high: float) -> float:
    """Per cent of a track from `low` to `high`, held inside it."""
    return round(min(max(100 * (value - low) / (high - low), 0.0), 100.0), 3) if high > low else 0.0


def _forecast_scale(tried: tuple[info.TrialInfo, ...], least_gain: float) -> tuple[float, float]:
    """From the worst to the best of all predictions and outcomes, nothing and the least gain included.

    A loss of more than half a step is drawn at the edge: it must not squash what is worth comparing.
    """
    values = [0.0, least_gain]
    for one in tried:
        values += one.predicted or ()
        values += _drawn(one.gain)
    low, high = max(min(values), -0.5), max(values)
    air = 0.04 * (high - low)
    return (low - air if low < 0 else low), high + air


def _drawn(gain: Interval | None) -> tuple[float, ...]:
    """The ends of an interval that a picture has to hold; an unknown range has none."""
    return (gain.low, gain.high) if gain and info.bounded(gain) else ()


def _forecast(one: info.TrialInfo, low: float, high: float, least_gain: float) -> ForecastInfo:
    from netdyno.reports import _figures

    known = one.gain if one.gain and info.bounded(one.gain) else None
    drawn = pictures.pairs(one.saved, one.spawns, also=(0.0, least_gain, *_drawn(one.gain)))
    svg, caption = "", ""
    if drawn is not None:
        svg = _figures.pairs_svg(
            drawn, gain=known, least_gain=least_gain, decision=one.decision, name=f"trial-{one.number}"
        )
        caption = f"{len(drawn.saved)} pairs in the order they were taken, saved {one.gain_says} of a step"
        if drawn.beyond:
            caption += f"; {drawn.beyond} beyond the edge"
    return ForecastInfo(
        one,
        _span(*one.predicted, low, high) if one.predicted else None,
        _span(known.low, known.high, low, high) if known else None,
        _place(known.middle, low, high) if known else None,
        svg,
        caption,
    )


def _roofline(drawn: pictures.RooflineInfo | None) -> str:
    from netdyno.reports import _figures

    return _figures.roofline_svg(drawn, name="roofline") if drawn is not None and drawn.dots else ""


def _part_of(split: Split | float, widest: float) -> str:
    """A width in per cent for CSS."""
    value = split.wall if isinstance(split, Split) else split
    return f"{100 * value / widest:.3f}%" if widest > 0 else "0%"
