"""The learning rate, answered by its own experiment: a range test, a race about what it suggests, and a confirmation on fresh seeds."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup, turned
from netdyno.knobs._optimizers import built, rates
from netdyno.learning import sweep as plain
from netdyno.learning.range_test import RangeTest, concluded, first_rate, range_test
from netdyno.learning.rate_race import FINALISTS, Proven, proven
from netdyno.learning.trainings import TimeIsUpError, Trainings
from netdyno.records.measured import Interval
from netdyno.records.study import Curve, Option, Run, Sweep
from netdyno.records.trial import Change
from netdyno.verdicts import study as verdicts

KNOB = "learning-rate"
# Seeds of the walks and of the first look at each rate; the finalists run on the others of a plan.
FIRST = 2
# Rates that a race tries where the curve suggests well: three, the one that stands, and two half a stride away.
USUAL = 6
Recipe = tuple[Change, ...]


def rate_sweep(
    trainings: Trainings,
    kind: type[Any],
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    level: float,
    least_gain: float = 0.0,
) -> Sweep:
    """The rate that a curve suggests and training proves (`rate_race`), confirmed against the one that stands.

    Where its time does not suffice for that, a few fixed factors are swept like the settings of any knob.
    """
    others = tuple(change for change in recipe if change.id != KNOB)
    setup = turned(others, trainings.setup)
    left = trainings.seconds_left()
    if not any(rates(built(setup))) or (left is not None and price_s(trainings, setup, len(seeds)) > left):
        return plain.sweep(trainings, KNOB, kind, recipe, seeds=seeds, level=level, least_gain=least_gain)
    began = trainings.clock()
    blank = Sweep(
        knob=KNOB, stage=kind.stage, asks=kind.asks, reason=kind.reason, options=(), seeds=tuple(seeds), verdict="not run",
        updates=trainings.setup.updates, effort_min=kind.effort_min,
    )  # fmt: skip
    try:
        found = _swept(trainings, blank, setup, others, recipe, seeds=seeds, level=level, least_gain=least_gain)
    except TimeIsUpError:
        found = replace(blank, says="there was no time left for it")
    return replace(found, seconds=trainings.clock() - began)


def price_s(trainings: Trainings, setup: Setup, seeds: int) -> float:
    """What it is expected to take: walks, a race with its finalists, and both sides on fresh seeds."""
    first = min(FIRST, seeds)
    walks = first * 200 / max(1, setup.updates)  # a walk has some two hundred updates
    runs = USUAL * first + FINALISTS * (seeds - first) + 2 * seeds
    return (walks + runs) * trainings.expected_s()


def _swept(
    trainings: Trainings,
    blank: Sweep,
    setup: Setup,
    others: Recipe,
    recipe: Recipe,
    *,
    seeds: Sequence[int],
    level: float,
    least_gain: float,
) -> Sweep:
    walked = _walked(trainings, setup, others, seeds[:FIRST])
    base = first_rate(built(setup))
    stands = next((float(each.settings["factor"]) for each in recipe if each.id == KNOB), 1.0)  # type: ignore[arg-type]

    def with_rate(factor: float) -> Recipe:
        if factor == stands:
            return recipe
        return (*others, Change(id=KNOB, settings={"factor": factor}))

    def trained(change: Recipe, seed: int) -> Run:
        return trainings.run(with_rate(float(change[0].settings["factor"])), seed, stage=blank.stage, knob=KNOB)  # type: ignore[arg-type]

    raced = proven(
        setup, walked, seeds=seeds[:FIRST], more=seeds[FIRST:], also=(base * stands,), trained=trained,
        listener=trainings.listener,
    )  # fmt: skip
    if raced is None:
        return replace(blank, verdict="failed", says="no learning rate trains to its end", curves=_curves(walked, None))
    blank = replace(
        blank,
        options=_options(trainings, raced, recipe, base=base, with_rate=with_rate, level=level),
        curves=_curves(walked, raced),
    )
    if with_rate(raced.factor) == recipe:
        return replace(blank, verdict="not distinguishable", says=f"the rate that stands is the best: {raced.says}")
    before, after = plain.confirm(
        trainings, recipe, with_rate(raced.factor), [plain.FRESH + seed for seed in seeds], level=level,
        stage=blank.stage, knob=KNOB, least_gain=least_gain,
    )  # fmt: skip
    effect, pairs = verdicts.effect(before, after, level), len(before.keys() & after.keys())
    kept = verdicts.is_better(effect, pairs=pairs, least_gain=least_gain)
    no_better = verdicts.is_no_better(effect, least_gain=least_gain)
    return _judged(blank, raced, effect, pairs, "kept" if kept else "no better" if no_better else "not distinguishable")


def suggested(trainings: Trainings, seed: int) -> float | None:
    """What one walk from the start suggests to multiply the rate by; None where it shows no descent, or there is no rate to multiply."""
    setup = trainings.setup
    if not any(rates(built(setup))):
        return None
    factor = _walked(trainings, setup, (), (seed,)).factor
    return float(f"{factor:.3g}") if factor is not None else None


def _walked(trainings: Trainings, setup: Setup, others: Recipe, seeds: Sequence[int]) -> RangeTest:
    """Walks under the first seeds, on record like runs; where they break, none says anything and the race begins at the rate that stands."""
    walks = []
    for seed in seeds:
        began = trainings.clock()
        try:
            walk = range_test(setup, seeds=(seed,), listener=trainings.listener).walks[0]
        except NetdynoError:
            break
        walks.append(walk)
        trainings.note(
            Run(
                stage="optim", knob=KNOB, recipe=(*others, Change(id="range-test")), seed=seed, updates=len(walk.rates),
                batch_size=setup.batch_size, seconds=trainings.clock() - began,
            )
        )  # fmt: skip
    return concluded(walks, base=first_rate(built(setup)))


def _options(
    trainings: Trainings, raced: Proven, recipe: Recipe, *, base: float, with_rate: Any, level: float
) -> tuple[Option, ...]:
    """What stands, and each rate that was raced, from the lowest to the highest."""
    control = trainings.known_scores(recipe)
    options = [
        Option(change=None, says="as it stands", scores=tuple(control.values()), mean=fmean(control.values()) if control else None)
    ]  # fmt: skip
    for rate in sorted(raced.tried):
        mine = with_rate(float(f"{rate / base:.4g}"))
        if mine == recipe:
            continue
        scores = raced.tried[rate]
        failed = next((run.failed for run in trainings.of(mine) if run.failed is not None), None)
        options.append(
            Option(
                change=mine[-1], says=f"rate {rate:.3g}", scores=tuple(scores.values()), failed=failed,
                mean=fmean(scores.values()) if scores else None, effect=verdicts.effect(control, scores, level),
            )
        )  # fmt: skip
    return tuple(options)


def _judged(blank: Sweep, raced: Proven, effect: Interval | None, pairs: int, verdict: Any) -> Sweep:
    at = next(
        number
        for number, option in enumerate(blank.options)
        if option.change is not None and option.change.settings["factor"] == raced.factor
    )
    options = [*blank.options]
    options[at] = replace(options[at], effect=effect)
    names = {f"rate {rate:.3g}" for rate in raced.alike}
    alike = tuple(number for number, option in enumerate(options) if option.says in names)
    ranged = (
        f"it changes the score by {effect.middle:+.4g} ({effect.low:+.4g} to {effect.high:+.4g}) on {pairs} fresh seeds"
        if effect is not None
        else "no fresh seed could compare it"
    )
    kept = verdict == "kept"
    return replace(
        blank, options=tuple(options), verdict=verdict, chosen=at if kept else None, among=alike if kept else (),
        says=f"{'' if verdict != 'not distinguishable' else 'not distinguishable from noise: '}{raced.says}; {ranged}",
    )  # fmt: skip


def _curves(walked: RangeTest, raced: Proven | None) -> tuple[Curve, ...]:
    """The walks, and the mean score over the rates that trained."""
    found = [] if walked.curve is None else [walked.curve]
    if raced is not None:
        points = sorted((rate, fmean(scores.values())) for rate, scores in raced.tried.items() if scores)
        found.append(
            Curve(
                name="learning-rate race", x_name="learning rate", y_name="score", x=tuple(rate for rate, _ in points),
                lines={"score": tuple(score for _, score in points)}, marks={"best": raced.rate}, log_x=True,
            )
        )  # fmt: skip
    return tuple(found)
