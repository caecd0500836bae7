"""One knob, answered by its own experiment: a race of its settings over seeds, and a confirmation on fresh seeds."""

from collections.abc import Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

from netdyno.knobs._base import read, turned, written
from netdyno.learning.trainings import TimeIsUpError, Trainings
from netdyno.progress import Event
from netdyno.records.measured import Interval
from netdyno.records.study import Curve, Option, Sweep
from netdyno.records.trial import Change
from netdyno.stats.spread import t_quantile
from netdyno.verdicts import study as verdicts

# Fresh seeds begin here: none of them chose what they confirm. Seeds of a plan are small numbers.
FRESH = 1000
# Seeds for a second look stand this far behind the first.
MORE = 500
# Seeds of a race: it only chooses what is confirmed.
RACED = 3
# Of which settings cannot be told from the winner: a remark beside a verdict, so no other claim pays for it.
ALIKE = 0.95
# A race goes on with the better half; the control always runs along.
HALF = 0.5
# A second look is worth its runs where the first shows at least this share of what both would have to show: of noise alone hardly
# any such difference comes, and from below it hardly any gets there.
WITHIN_REACH = 0.6
# It takes no more than this share of the time that is left: other knobs want to be asked too.
SECOND_LOOK = 0.25


def sweep(
    trainings: Trainings,
    knob: str,
    kind: type[Any],
    recipe: tuple[Change, ...],
    *,
    seeds: Sequence[int],
    level: float,
    least_gain: float = 0.0,
) -> Sweep:
    """All settings of a knob on top of `recipe`, raced over `seeds`; the winner is confirmed against the recipe on as many fresh seeds.

    The winner of a race is lucky as a rule: its scores there prove nothing. Only the pairs of fresh seeds decide.
    """
    began = trainings.clock()
    blank = Sweep(
        knob=knob, stage=kind.stage, asks=kind.asks, reason=kind.reason, options=(), seeds=tuple(seeds),
        verdict="not run", updates=trainings.setup.updates, effort_min=kind.effort_min,
    )  # fmt: skip
    told, changes, refused = settings_of(trainings, kind, recipe)
    if not changes:
        return _with(blank, verdict="refused", says=told, seconds=trainings.clock() - began)
    price, left = runs_of(len(changes), len(seeds)) * trainings.expected_s(), trainings.seconds_left()
    if left is not None and price > left:
        return _with(blank, says=f"it needs about {price:.0f} s, and {max(0.0, left):.0f} s are left of its stage")
    try:
        found = _swept(
            trainings, blank, changes, recipe, refused=refused, seeds=seeds, level=level, least_gain=least_gain
        )
    except TimeIsUpError:
        found = _with(blank, says="there was no time left for it")
    return _with(found, seconds=trainings.clock() - began)


def runs_of(options: int, seeds: int) -> int:
    """How many runs a sweep makes at most: a race that halves, and both sides on fresh seeds.

    >>> runs_of(4, 5)
    20
    """
    raced, left = 0, options
    for _ in range(min(RACED, seeds)):
        raced, left = raced + left + 1, max(1, round(left * HALF))
    return raced + 2 * seeds


def settings_of(
    trainings: Trainings, kind: type[Any], recipe: tuple[Change, ...]
) -> tuple[str, list[Change], list[Option]]:
    """The settings of a knob that make sense on top of a recipe, and those that don't, each with its reason."""
    setup = turned(recipe, trainings.setup)
    first = next((read(change) for change in recipe if change.id == _id(kind)), None) or kind()
    offered = first.settings(setup)
    changes: list[Change] = []
    refused: list[Option] = []
    why = first.refuses(setup) or "it has no setting to try here"
    for one in offered:
        change = written(one)
        no = one.refuses(setup)
        if no is not None:
            refused.append(Option(change=change, says=in_words(change), refused=no))
            why = no
        elif change not in recipe:
            changes.append(change)
    return why, changes, refused


def _swept(
    trainings: Trainings,
    blank: Sweep,
    changes: list[Change],
    recipe: tuple[Change, ...],
    *,
    refused: list[Option],
    seeds: Sequence[int],
    level: float,
    least_gain: float,
) -> Sweep:
    raced_on = seeds[:RACED]
    race(
        trainings,
        [with_change(recipe, change) for change in changes],
        recipe,
        raced_on,
        stage=blank.stage,
        knob=blank.knob,
    )
    raced = {at: trainings.known_scores(with_change(recipe, change), raced_on) for at, change in enumerate(changes)}
    winner = verdicts.best_of(raced)
    if winner is None:
        none = (_control(trainings, recipe), *_options(trainings, changes, recipe, level), *refused)
        return _with(blank, options=none, verdict="failed", says="no setting trains to its end")
    best = with_change(recipe, changes[winner])
    lead = verdicts.effect(trainings.known_scores(recipe, raced_on), raced[winner], level)
    if lead is not None and lead.middle <= least_gain:
        told = (_control(trainings, recipe), *_options(trainings, changes, recipe, level), *refused)
        return _with(
            blank, options=told, verdict="not distinguishable", says=_lost(changes[winner], lead, len(raced[winner]))
        )
    fresh = [FRESH + seed for seed in seeds]
    control, treatment = confirm(
        trainings, recipe, best, fresh, level=level, stage=blank.stage, knob=blank.knob, least_gain=least_gain
    )
    effect = verdicts.effect(control, treatment, level)
    pairs = len(control.keys() & treatment.keys())
    options = [_control(trainings, recipe), *_options(trainings, changes, recipe, level)]
    options[winner + 1] = _with_effect(options[winner + 1], effect)
    noise = [treatment[seed] - control[seed] for seed in control.keys() & treatment.keys()]
    alike = tuple(at + 1 for at in verdicts.among(raced, winner, ALIKE, noise=noise))
    kept = verdicts.is_better(effect, pairs=pairs, least_gain=least_gain)
    no_better = verdicts.is_no_better(effect, least_gain=least_gain)
    verdict = "kept" if kept else "no better" if no_better else "not distinguishable"
    return _with(
        blank, options=(*options, *refused), verdict=verdict, chosen=winner + 1 if kept else None,
        among=alike if kept else (), says=_says(changes[winner], effect, pairs, verdict), curves=_curves(blank.knob, options),
    )  # fmt: skip


def race(
    trainings: Trainings,
    recipes: Sequence[tuple[Change, ...]],
    control: tuple[Change, ...],
    seeds: Sequence[int],
    *,
    stage: Any,
    knob: str,
) -> None:
    """Every recipe on the first seed, the better half on the second, and so on: successive halving over seeds.

    The control runs on all seeds. What was left behind keeps the scores it has.
    """
    left = list(recipes)
    for number, seed in enumerate(seeds):
        trainings.run(control, seed, stage=stage, knob=knob)
        doing = f"sweeping {knob}, seed {number + 1} of {len(seeds)}"
        ranked = ranked_on(trainings, left, seeds[: number + 1], stage=stage, knob=knob, doing=doing)
        left = ranked[: max(1, round(len(ranked) * HALF))] if len(ranked) > 1 else left[:1]


def ranked_on(
    trainings: Trainings,
    recipes: Sequence[tuple[Change, ...]],
    seeds: Sequence[int],
    *,
    stage: Any,
    knob: str,
    doing: str,
) -> list[tuple[Change, ...]]:
    """Every recipe under the last of the seeds; those that came to the end of all seeds, the highest mean first."""
    for done, recipe in enumerate(recipes):
        trainings.listener(Event(doing, done, len(recipes)))
        trainings.run(recipe, seeds[-1], stage=stage, knob=knob)
    scored = [
        (scores, recipe) for recipe in recipes if len(scores := trainings.known_scores(recipe, seeds)) == len(seeds)
    ]
    return [recipe for _, recipe in sorted(scored, key=lambda pair: -fmean(pair[0].values()))]


def confirm(
    trainings: Trainings,
    control: tuple[Change, ...],
    treatment: tuple[Change, ...],
    seeds: Sequence[int],
    *,
    level: float,
    stage: Any,
    knob: str,
    least_gain: float = 0.0,
) -> tuple[dict[int, float], dict[int, float]]:
    """Both on fresh seeds, pair by pair, and on as many again where the first leave it open and a gain is likelier than a loss.

    So a confirmation looks at its interval twice, and `level` must be that of one look. It ends early where a gain is ruled out, or
    no likelier than a loss: to give up early claims nothing.
    """
    before: dict[int, float] = {}
    after: dict[int, float] = {}

    def pairs(course: Sequence[int]) -> None:
        for done, seed in enumerate(course):
            trainings.listener(Event(f"confirming {knob} on fresh seeds", done, len(course)))
            runs = [trainings.run(recipe, seed, stage=stage, knob=knob) for recipe in (control, treatment)]
            for run, scores in zip(runs, (before, after), strict=True):
                if run.score is not None:
                    scores[seed] = run.score
            found = verdicts.effect(before, after, level)
            if len(before) >= verdicts.LEAST_PAIRS and found is not None and found.middle <= least_gain:
                return

    pairs(seeds)
    first = verdicts.effect(before, after, level)
    wanted = first is not None and first.low <= least_gain < first.middle
    if first is not None and wanted and _within_reach(first, len(before), least_gain) and _affordable(trainings, seeds):
        # Where time runs out, the pairs there are decide: it is still the second look.
        with suppress(TimeIsUpError):
            pairs([MORE + seed for seed in seeds])
    return before, after


def _affordable(trainings: Trainings, seeds: Sequence[int]) -> bool:
    left = trainings.seconds_left()
    return left is None or 2 * len(seeds) * trainings.expected_s() <= SECOND_LOOK * left


def _within_reach(first: Interval, pairs: int, least_gain: float) -> bool:
    """Whether as many pairs again could show a gain, with the spread and about the difference that were seen."""
    half = (first.high - first.low) / 2
    shrunk = t_quantile((1 + first.level) / 2, 2 * pairs - 1) / t_quantile((1 + first.level) / 2, pairs - 1) / 2**0.5
    return first.middle - least_gain >= WITHIN_REACH * half * shrunk


def with_change(recipe: tuple[Change, ...], change: Change) -> tuple[Change, ...]:
    """The recipe with that setting, in place of another one of the same knob."""
    return (*(each for each in recipe if each.id != change.id), change)


def in_words(change: Change) -> str:
    """A setting in a few words.

    >>> in_words(Change(id="weight-decay", settings={"value": 0.01}))
    'value 0.01'
    """
    return ", ".join(f"{name} {_number(value)}" for name, value in change.settings.items()) or "on"


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _control(trainings: Trainings, recipe: tuple[Change, ...]) -> Option:
    scores = tuple(trainings.known_scores(recipe).values())
    return Option(
        change=None, says="as it stands", scores=scores, mean=fmean(scores) if scores else None,
        seconds=_seconds(trainings, recipe),
    )  # fmt: skip


def _options(trainings: Trainings, changes: Sequence[Change], recipe: tuple[Change, ...], level: float) -> list[Option]:
    control = trainings.known_scores(recipe)
    options = []
    for change in changes:
        mine = with_change(recipe, change)
        scores = trainings.known_scores(mine)
        runs = trainings.of(mine)
        failed = next((run.failed for run in runs if run.failed is not None), None)
        options.append(
            Option(
                change=change, says=in_words(change), scores=tuple(scores.values()),
                mean=fmean(scores.values()) if scores else None, effect=verdicts.effect(control, scores, level),
                seconds=_seconds(trainings, mine), failed=failed,
            )
        )  # fmt: skip
    return options


def _seconds(trainings: Trainings, recipe: tuple[Change, ...]) -> float:
    whole = [run.seconds for run in trainings.of(recipe) if run.failed is None]
    return fmean(whole) if whole else 0.0


def _lost(change: Change, lead: Interval, seeds: int) -> str:
    """Why the winner of a race was not confirmed: luck and all it was no better."""
    return f"not distinguishable from noise: the best of the race, {in_words(change)}, changed the score by {lead.middle:+.4g} on {seeds} seeds"


def _says(change: Change, effect: Any, pairs: int, verdict: str) -> str:
    if effect is None:
        return f"{in_words(change)} won the race, and no fresh seed could compare it"
    ranged = f"{effect.middle:+.4g} ({effect.low:+.4g} to {effect.high:+.4g}) on {pairs} fresh seeds"
    if verdict == "not distinguishable":
        return f"not distinguishable from noise: {in_words(change)} changes the score by {ranged}"
    return f"{in_words(change)} changes the score by {ranged}"


def _curves(knob: str, options: Sequence[Option]) -> tuple[Curve, ...]:
    """The mean score over a knob's only number, where it has one."""
    points = []
    for option in options:
        numbers = [v for v in (option.change.settings.values() if option.change else ()) if isinstance(v, int | float)]
        if len(numbers) == 1 and option.mean is not None and not isinstance(numbers[0], bool):
            points.append((float(numbers[0]), option.mean))
    if len(points) < 3:
        return ()
    points.sort()
    x = tuple(at for at, _ in points)
    wide = x[0] > 0 and x[-1] / x[0] >= 10  # a setting of another order of magnitude
    return (
        Curve(name=knob, x_name=knob, y_name="score", x=x, lines={"score": tuple(y for _, y in points)}, log_x=wide),
    )


def _id(kind: type[Any]) -> str:
    return written(kind()).id


def _with(sweep: Sweep, **changed: Any) -> Sweep:
    from msgspec.structs import replace

    return replace(sweep, **changed)


def _with_effect(option: Option, effect: Any) -> Option:
    from msgspec.structs import replace

    return replace(option, effect=effect)
