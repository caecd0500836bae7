"""Counterfactuals: a script as it is against the same script with one thing changed, seed by seed, in turns."""

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.aboard.remedies import _base as remedies
from netdyno.errors import NetdynoError
from netdyno.progress import Event
from netdyno.records.diagnosis import Experiment, Finding
from netdyno.records.samples import Samples
from netdyno.records.scores import Scores
from netdyno.records.trial import Change
from netdyno.scripts.evidence import timeline_of, vitals_of
from netdyno.scripts.launch import Ride
from netdyno.stats.spread import t_interval
from netdyno.trials.script_lab import ScriptLab

# Five seeds: the fewest at which Student's interval is narrower than three standard deviations.
SEEDS = 5
# All that one experiment may err, over its looks, its quantities and the remedies that are tried for one finding: shares of it
# are added up (Bonferroni), which holds whatever depends on what.
ERROR = 0.05
# After three pairs there is a first look. It gets a fifth of the error: what is large is seen then, and the last look loses little.
FIRST_LOOK, FIRST_SHARE = 3, 0.2
# An edit of the source, made by a rule of the lint room: its id stands in the settings.
EDIT = "edit"
# What was not asked for may get worse by so much of itself before a fix counts as a bad trade.
SLOWER, WORSE_SCORE = 0.25, 0.02
# What is wrong is often cheap: a frozen part costs nothing. A right program may take so much more.
RIGHT_IS_SLOWER = 0.75
# A loss that diverged has no number. This many times the first loss stands for it: worse than any that trains.
DIVERGED = 1e3
# Records refuse infinity: an interval that reaches this far is not known at that end.
UNKNOWN = 1e6

Sources = Mapping[str, str]


class Seen(NamedTuple):
    """What one run showed, in order of its updates. `ended` is True when the script came to its own end."""

    losses: tuple[float, ...] = ()
    scores: Scores | None = None
    recall: float | None = None
    seconds: float | None = None
    peak: float | None = None
    through: bool = True
    ended: bool = True
    updates: int = 0


class Side(NamedTuple):
    """What one run of a pair is compared by.

    `score` and `held` are means over the last quarter of the evaluations, which swing; without any `score` is that of training
    batches, and `evaluated` None. `final` is the score of the very last evaluation; `loss` the mean of the last quarter of training losses; `rows` what evaluations score in all, `recall` the mean over
    classes. `seconds` per update and `peak` bytes are the program's own, `through` says that it came to a good end.
    """

    score: float | None
    measure: str
    loss: float | None
    seconds: float | None
    peak: float | None
    through: bool
    final: float | None = None
    held: float | None = None
    recall: float | None = None
    rows: float | None = None
    evaluated: float | None = None


Pair = tuple[Side, Side]


class Quantity(NamedTuple):
    """What is compared. `of` reads it from a side, `gain` makes of control and treatment what the change wins."""

    name: str
    of: Callable[[Side], float | None]
    gain: Callable[[float, float], float]


def _more(control: float, treatment: float) -> float:
    return treatment - control


def _share_saved(control: float, treatment: float) -> float:
    return 1 - treatment / control if control else 0.0


def _share_more(control: float, treatment: float) -> float:
    return treatment / control - 1 if control else 0.0


SCORE = Quantity("score", lambda side: side.score, _more)
FINAL = Quantity("last score", lambda side: side.final, _more)
EVALUATED = Quantity("score", lambda side: side.evaluated, _more)
HELD = Quantity("held-out loss", lambda side: side.held, _share_saved)
LOSS = Quantity("training loss", lambda side: side.loss, _share_saved)
RECALL = Quantity("mean recall of a class", lambda side: side.recall, _more)
ROWS = Quantity("rows that are evaluated", lambda side: side.rows, _share_more)
SECONDS = Quantity("seconds per update", lambda side: side.seconds, _share_saved)
PEAK = Quantity("peak memory", lambda side: side.peak, _share_saved)
THROUGH = Quantity("runs that come through", lambda side: float(side.through), _more)

# What a finding is about where its stage and its layer don't tell: accuracy hides a rare class, and rows left out are no score.
ABOUT = {"hidden-imbalance": (RECALL,), "dropped-validation": (ROWS,), "split-scaling": (EVALUATED, HELD)}
BY_RUN = (SECONDS, PEAK, ROWS)  # these differ from run to run whatever the seed


def prove(
    lab: ScriptLab,
    finding: Finding,
    change: Change,
    *,
    updates: int | None,
    sources: Sources | None = None,
    seeds: int = SEEDS,
    tries: int = 1,
    clock: Callable[[], float] = time.monotonic,
    enough_s: float = math.inf,
) -> Experiment:
    """Run a script with and without `change`, once per seed, who goes first by chance, and compare what the finding is about.

    The seeds move every random stream that the script seeds itself. It ends early when three pairs show an effect at a
    fifth of the error allowed; `tries` is the number of remedies that share that error. After `enough_s` seconds no
    further pair begins; two pairs at least are needed for an interval. Never raises: a run that fails is what the
    experiment shows.
    """
    if not quantities(finding):
        return _failed(finding, change, (), NOTHING_TO_COMPARE, 0.0)
    began = clock()
    pairs: list[tuple[Seen, Seen]] = []
    chance = random.Random(lab.plan.seed)
    error = ERROR / tries
    late = error * (1 - FIRST_SHARE) if seeds > FIRST_LOOK else error
    for seed in range(seeds):
        if len(pairs) > 1 and (clock() - began) * (1 + 1 / len(pairs)) > enough_s:
            break
        lab.listener(Event(f"proving {change.label}", seed, seeds))
        order = [None, change]
        chance.shuffle(order)
        try:
            seen = {side is None: _run(lab, side, updates=updates, seed=seed, sources=sources) for side in order}
        except NetdynoError as problem:
            return _failed(finding, change, tuple(range(len(pairs))), str(problem), clock() - began)
        pairs.append((seen[True], seen[False]))
        if len(pairs) == FIRST_LOOK < seeds:
            early = _concluded(finding, change, pairs, error * FIRST_SHARE, clock() - began)
            if early.verdict in ("proven", "refuted") or CHANGE_DOES_NOTHING in early.says:
                return early
    return _concluded(finding, change, pairs, late, clock() - began)


def _concluded(
    finding: Finding, change: Change, pairs: list[tuple[Seen, Seen]], error: float, cost_s: float
) -> Experiment:
    told = tuple(range(len(pairs)))
    return concluded(finding, change, told, [pair_of(*pair) for pair in pairs], error=error, cost_s=cost_s)


def _run(lab: ScriptLab, change: Change | None, *, updates: int | None, seed: int, sources: Sources | None) -> Seen:
    made: dict[str, object] = {}
    if change is not None and change.id in remedies.names():
        made["remedies"] = ({"id": change.id, "settings": dict(change.settings)},)
    elif change is not None and change.id == EDIT:
        made["sources"] = sources or {}
    elif change is not None:
        made["recipe"] = (change,)
    return seen_in(lab.ride(updates=updates, vitals=True, shift=seed, **made))  # type: ignore[arg-type]


def seen_in(ride: Ride) -> Seen:
    """What a run showed."""
    training = ride.stream.training
    tick = training.tick if training is not None else None
    if tick is None:
        return Seen(through=ride.complete, ended=ride.reason == "ended")
    vitals = vitals_of(tick)[0]
    samples = next((each for each in vitals if isinstance(each, Samples)), None)
    known = [each for each in samples.recall if each is not None] if samples is not None else []
    timeline = timeline_of(tick)
    return Seen(
        losses=tuple(ride.stream.losses),
        scores=next((each for each in vitals if isinstance(each, Scores)), None),
        recall=fmean(known) if known else None,
        seconds=timeline.step.own if timeline is not None else None,
        peak=float(tick.peak_rss) if tick.peak_rss else None,
        through=ride.complete,
        ended=ride.reason in ("ended", "failed"),
        updates=ride.stream.updates,
    )


def pair_of(control: Seen, treatment: Seen) -> Pair:
    """Both sides of a pair: as they ended, or, where one was stopped, up to the last update that both have."""
    equal = control.updates == treatment.updates
    most = None if equal or (control.ended and treatment.ended) else min(control.updates, treatment.updates)
    return side_of(control, most), side_of(treatment, most)


def side_of(seen: Seen, most: int | None = None) -> Side:
    """What a run is compared by, up to so many updates."""
    scores = seen.scores
    rounds = [each for each in (scores.rounds if scores is not None else ()) if most is None or each.at <= most]
    scored = [each.score for each in rounds if each.score is not None]
    held = [each.loss for each in rounds if each.loss is not None]
    trained = scores.train_last if scores is not None else None
    loss = seen.losses[:most]
    if held and loss and not math.isfinite(fmean(_last(loss))):
        held.append(math.inf)  # rounds without a finite loss are not told
    return Side(
        score=fmean(_last(scored)) if scored else trained,
        measure=scores.measure if scores is not None else "",
        loss=_tail(loss),
        seconds=seen.seconds,
        peak=seen.peak,
        through=seen.through,
        final=scored[-1] if scored else None,
        evaluated=fmean(_last(scored)) if scored else None,
        held=_tail(tuple(held)),
        recall=seen.recall,
        rows=float(sum(each.rows for each in rounds)) or None,
    )


def _last(values: Sequence[float]) -> Sequence[float]:
    """The last quarter, one at least."""
    return values[-max(1, len(values) // 4) :]


def _tail(losses: tuple[float, ...]) -> float | None:
    """The mean of the last quarter; a multiple of the first loss where that is not finite."""
    if not losses:
        return None
    mean = fmean(_last(losses))
    return mean if math.isfinite(mean) else DIVERGED * abs(losses[0] if math.isfinite(losses[0]) else 1.0)


def concluded(
    finding: Finding,
    change: Change,
    seeds: tuple[int, ...],
    pairs: list[Pair],
    *,
    error: float = ERROR,
    cost_s: float = 0.0,
) -> Experiment:
    """What pairs of runs (control, treatment) say about a finding's fix, erring no more often than `error`. Pure.

    Where a finding is about several quantities each gets its part of the error, and the first that is proven is told.
    """
    compared = compared_by(finding, pairs)
    if not compared:
        return _failed(finding, change, seeds, "neither a score nor a loss nor a time was seen on both sides", cost_s)
    made = [
        _by(one, finding, change, pairs, seeds=seeds, error=error / len(compared), cost_s=cost_s) for one in compared
    ]
    return next((each for each in made if each.verdict == "proven"), made[0])


def _by(
    quantity: Quantity,
    finding: Finding,
    change: Change,
    pairs: list[Pair],
    *,
    seeds: tuple[int, ...],
    error: float,
    cost_s: float,
) -> Experiment:
    control = tuple(quantity.of(one) or 0.0 for one, _ in pairs)
    treatment = tuple(quantity.of(other) or 0.0 for _, other in pairs)
    gains = [quantity.gain(one, other) for one, other in zip(control, treatment, strict=True)]
    effect = t_interval(gains, 1 - error, unbounded=UNKNOWN)
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
        guards=tuple(_worse(finding, pairs, quantity)),
        cost_s=cost_s,
    )
    made = replace(made, says=_says(made, share=quantity.gain is not _more))
    if quantity not in (*BY_RUN, THROUGH) and (_idle(pairs) or _one_run(pairs)):
        why = CHANGE_DOES_NOTHING if _idle(pairs) else SEEDS_DO_NOTHING
        return replace(made, verdict="undecided", says=f"{made.says}; but {why}")
    return replace(made, verdict="proven") if effect.low > 0 and not made.guards else made


CHANGE_DOES_NOTHING = "the change moved no number of any run: it did not take hold, which says nothing of the cause"
SEEDS_DO_NOTHING = "no seed changes this script, so that all pairs are one pair"
NOTHING_TO_COMPARE = (
    "no quantity to compare: what this is about does not show in the scores, the time or the memory of a run"
)


def _numbers(side: Side) -> tuple[float | None, ...]:
    """What a run without noise gives again to the last bit."""
    return (side.loss, side.score, side.held, side.final, side.recall)


def _idle(pairs: list[Pair]) -> bool:
    """Whether both sides are the same run with each seed."""
    return all(_numbers(one) == _numbers(other) and one.loss is not None for one, other in pairs)


def _one_run(pairs: list[Pair]) -> bool:
    """Whether every seed gave the same run: copies of one pair are no repetitions."""
    told = {(*_numbers(one), *_numbers(other)) for one, other in pairs}
    return len(pairs) > 1 and len(told) == 1 and pairs[0][0].loss is not None


def quantities(finding: Finding) -> tuple[Quantity, ...]:
    """What the finding is about, best first; none where a run has no number for it."""
    if finding.id in ABOUT:
        return ABOUT[finding.id]
    if finding.stage == "failure":
        return (THROUGH,)
    if finding.layer == "memory":
        return (PEAK, SECONDS)
    if finding.stage in ("speed", "bound") or finding.saves.high:
        return (SECONDS,)
    if finding.layer == "reproducibility" or finding.stage == "note":
        return ()
    if finding.stage == "use":  # all of the evaluations, or what is done with the weights before the last one
        return (EVALUATED, FINAL)
    if finding.stage == "outcome":
        return (HELD, SCORE)
    # A fix of the loss itself changes what a held-out loss means.
    return (SCORE,) if finding.stage == "loss" else (SCORE, HELD)


def compared_by(finding: Finding, pairs: list[Pair]) -> tuple[Quantity, ...]:
    """The quantities of a finding that both sides of every pair show. Without any score the training loss stands in."""
    wanted = quantities(finding)
    if not pairs or not wanted:
        return ()
    if len({side.through for pair in pairs for side in pair}) > 1:
        return (THROUGH,)
    shown = [one for one in wanted if all(one.of(side) is not None for pair in pairs for side in pair)]
    if not shown and SCORE in wanted and all(side.loss is not None for pair in pairs for side in pair):
        return (LOSS,)
    return tuple(shown)


def _named(quantity: Quantity, pairs: list[tuple[Side, Side]]) -> str:
    if quantity not in (SCORE, FINAL, EVALUATED):
        return quantity.name
    return {"accuracy": "accuracy", "r2": "share of variance explained"}.get(pairs[0][0].measure, "score")


def _worse(finding: Finding, pairs: list[Pair], chosen: Quantity) -> Iterable[str]:
    """What got surely worse though nobody asked about it."""
    for_speed = SECONDS in quantities(finding)
    # Accuracy falls by itself where a rare class is found at last, and where rows come in that were left out.
    scores = () if chosen in (RECALL, ROWS, FINAL) else ((SCORE, WORSE_SCORE),)
    for quantity, least in ((SECONDS, SLOWER if for_speed else RIGHT_IS_SLOWER), *scores):
        if quantity is chosen or chosen is THROUGH:
            continue
        values = [(quantity.of(one), quantity.of(other)) for one, other in pairs]
        gains = [quantity.gain(one, other) for one, other in values if one is not None and other is not None]
        if len(gains) == len(pairs) > 1:
            interval = t_interval(gains, 1 - ERROR, unbounded=UNKNOWN)
            if interval.high < -least:
                yield f"the {quantity.name} got worse by {-interval.middle:.2g} ({-interval.high:.2g} to {-interval.low:.2g})"


def _says(experiment: Experiment, *, share: bool) -> str:
    """The numbers behind a verdict, in a sentence."""
    effect, control, treatment = experiment.effect, experiment.control, experiment.treatment
    assert effect is not None
    text = (
        f"{experiment.quantity} {fmean(control):.4g} → {fmean(treatment):.4g} over {len(control)} seeds: "
        f"{effect.middle:+.3g} ({effect.low:+.3g} to {effect.high:+.3g} at {effect.level:.3g}){' as a share' if share else ''}"
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
