"""Counterfactuals: a script as it is against the same script with one thing changed, seed by seed, in turns."""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.aboard.remedies import _base as remedies
from netdyno.errors import NetdynoError
from netdyno.progress import Event
from netdyno.records.diagnosis import Experiment, Finding
from netdyno.records.scores import Scores
from netdyno.records.trial import Change
from netdyno.scripts.evidence import timeline_of, vitals_of
from netdyno.scripts.launch import Ride
from netdyno.stats.spread import t_interval
from netdyno.trials.script_lab import ScriptLab

# Five seeds: the fewest at which Student's interval is narrower than three standard deviations.
SEEDS = 5
LEVEL = 0.95
# An edit of the source, made by a rule of the lint room: its id stands in the settings.
EDIT = "edit"
# What was not asked for may get worse by so much of itself before a fix counts as a bad trade.
SLOWER, WORSE_SCORE = 0.25, 0.02
# A loss that diverged has no number. This many times the first loss stands for it: worse than any that trains.
DIVERGED = 1e3
# Records refuse infinity: an interval that reaches this far is not known at that end.
UNKNOWN = 1e6

Sources = Mapping[str, str]


class Side(NamedTuple):
    """What one run showed: its score, its last training losses, its own seconds per update, its peak, and whether it came through."""

    score: float | None
    measure: str
    loss: float | None
    seconds: float | None
    peak: float | None
    through: bool


class Quantity(NamedTuple):
    """What is compared. `of` reads it from a side, `gain` makes of control and treatment what the change wins."""

    name: str
    of: Callable[[Side], float | None]
    gain: Callable[[float, float], float]


def _more(control: float, treatment: float) -> float:
    return treatment - control


def _share_saved(control: float, treatment: float) -> float:
    return 1 - treatment / control if control else 0.0


SCORE = Quantity("score", lambda side: side.score, _more)
LOSS = Quantity("training loss", lambda side: side.loss, _share_saved)
SECONDS = Quantity("seconds per update", lambda side: side.seconds, _share_saved)
PEAK = Quantity("peak memory", lambda side: side.peak, _share_saved)
THROUGH = Quantity("runs that come through", lambda side: float(side.through), _more)


def prove(
    lab: ScriptLab,
    finding: Finding,
    change: Change,
    *,
    updates: int | None,
    sources: Sources | None = None,
    seeds: int = SEEDS,
    clock: Callable[[], float] = time.monotonic,
    enough_s: float = math.inf,
) -> Experiment:
    """Run a script with and without `change`, once per seed, who goes first by chance, and compare what the finding is about.

    The seeds move every random stream that the script seeds itself. After `enough_s` seconds no further pair begins; two
    pairs at least are needed for an interval. Never raises: a run that fails is what the experiment shows.
    """
    began = clock()
    pairs: list[tuple[Side, Side]] = []
    used: list[int] = []
    chance = random.Random(lab.plan.seed)
    for seed in range(seeds):
        if len(pairs) > 1 and (clock() - began) * (1 + 1 / len(pairs)) > enough_s:
            break
        lab.listener(Event(f"proving {change.label}", seed, seeds))
        order = [None, change]
        chance.shuffle(order)
        try:
            seen = {side is None: _run(lab, side, updates=updates, seed=seed, sources=sources) for side in order}
        except NetdynoError as problem:
            return _failed(finding, change, tuple(used), str(problem), clock() - began)
        pairs.append((seen[True], seen[False]))
        used.append(seed)
    return concluded(finding, change, tuple(used), pairs, cost_s=clock() - began)


def _run(lab: ScriptLab, change: Change | None, *, updates: int | None, seed: int, sources: Sources | None) -> Side:
    made: dict[str, object] = {}
    if change is not None and change.id in remedies.names():
        made["remedies"] = ({"id": change.id, "settings": dict(change.settings)},)
    elif change is not None and change.id == EDIT:
        made["sources"] = sources or {}
    elif change is not None:
        made["recipe"] = (change,)
    return side_of(lab.ride(updates=updates, vitals=True, shift=seed, **made))  # type: ignore[arg-type]


def side_of(ride: Ride) -> Side:
    """What a run showed."""
    training = ride.stream.training
    tick = training.tick if training is not None else None
    if tick is None:
        return Side(None, "", None, None, None, ride.complete)
    scores = next((each for each in vitals_of(tick)[0] if isinstance(each, Scores)), None)
    timeline = timeline_of(tick)
    return Side(
        score=scores.last if scores is not None else None,
        measure=scores.measure if scores is not None else "",
        loss=_tail(ride.stream.losses),
        seconds=timeline.step.own if timeline is not None else None,
        peak=float(tick.peak_rss) if tick.peak_rss else None,
        through=ride.complete,
    )


def _tail(losses: tuple[float, ...]) -> float | None:
    """The mean of the last quarter; a multiple of the first loss where that is not finite."""
    if not losses:
        return None
    last = losses[-max(1, len(losses) // 4) :]
    mean = fmean(last)
    return mean if math.isfinite(mean) else DIVERGED * abs(losses[0] if math.isfinite(losses[0]) else 1.0)


def concluded(
    finding: Finding, change: Change, seeds: tuple[int, ...], pairs: list[tuple[Side, Side]], *, cost_s: float = 0.0
) -> Experiment:
    """What pairs of runs (control, treatment) say about a finding's fix. Pure."""
    quantity = quantity_of(finding, pairs)
    if quantity is None:
        return _failed(finding, change, seeds, "neither a score nor a loss nor a time was seen on both sides", cost_s)
    control = tuple(quantity.of(one) or 0.0 for one, _ in pairs)
    treatment = tuple(quantity.of(other) or 0.0 for _, other in pairs)
    gains = [quantity.gain(one, other) for one, other in zip(control, treatment, strict=True)]
    effect = t_interval(gains, LEVEL, unbounded=UNKNOWN)
    named = _named(quantity, pairs)
    made = Experiment(
        finding=finding.id,
        change=change,
        asks=f"does `{change.label}` help the {named}?",
        quantity=named,
        seeds=seeds,
        control=control,
        treatment=treatment,
        effect=effect,
        verdict="refuted" if effect.high <= 0 else "undecided",
        says="",
        guards=tuple(_worse(pairs, quantity)),
        cost_s=cost_s,
    )
    made = replace(made, says=_says(made, saved=quantity.gain is _share_saved))
    return replace(made, verdict="proven") if effect.low > 0 and not made.guards else made


def quantity_of(finding: Finding, pairs: list[tuple[Side, Side]]) -> Quantity | None:
    """What the finding is about, as far as both sides of every pair show it."""
    if not pairs:
        return None
    if finding.stage == "failure" or len({side.through for pair in pairs for side in pair}) > 1:
        return THROUGH
    wanted = (SCORE, LOSS)
    if finding.stage in ("speed", "bound") or finding.saves.high:
        wanted = (PEAK, SECONDS) if finding.layer == "memory" else (SECONDS, SECONDS)
    for quantity in wanted:
        if all(quantity.of(side) is not None for pair in pairs for side in pair):
            return quantity
    return None


def _named(quantity: Quantity, pairs: list[tuple[Side, Side]]) -> str:
    if quantity is not SCORE:
        return quantity.name
    return {"accuracy": "accuracy", "r2": "share of variance explained"}.get(pairs[0][0].measure, "score")


def _worse(pairs: list[tuple[Side, Side]], chosen: Quantity) -> Iterable[str]:
    """What got surely worse though nobody asked about it."""
    for quantity, least in ((SECONDS, SLOWER), (SCORE, WORSE_SCORE)):
        if quantity is chosen or chosen is THROUGH:
            continue
        values = [(quantity.of(one), quantity.of(other)) for one, other in pairs]
        gains = [quantity.gain(one, other) for one, other in values if one is not None and other is not None]
        if len(gains) == len(pairs) > 1:
            interval = t_interval(gains, LEVEL, unbounded=UNKNOWN)
            if interval.high < -least:
                yield f"the {quantity.name} got worse by {-interval.middle:.2g} ({-interval.high:.2g} to {-interval.low:.2g})"


def _says(experiment: Experiment, *, saved: bool) -> str:
    """The numbers behind a verdict, in a sentence."""
    effect, control, treatment = experiment.effect, experiment.control, experiment.treatment
    assert effect is not None
    text = (
        f"{experiment.quantity} {fmean(control):.4g} → {fmean(treatment):.4g} over {len(control)} seeds: "
        f"{effect.middle:+.3g} ({effect.low:+.3g} to {effect.high:+.3g}){' of it saved' if saved else ''}"
    )
    return "; but ".join((text, *experiment.guards))


def _failed(finding: Finding, change: Change, seeds: tuple[int, ...], why: str, cost_s: float) -> Experiment:
    return Experiment(
        finding=finding.id,
        change=change,
        asks=f"does `{change.label}` help?",
        quantity="",
        seeds=seeds,
        verdict="failed",
        says=why,
        cost_s=cost_s,
    )
