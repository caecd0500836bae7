"""What to try next, and with which settings."""

import statistics
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.arms.base import Arm
from netdyno.errors import ArmError
from netdyno.interventions._base import Facts, Intervention, catalogue, items_factor_of, written
from netdyno.records.evidence import StepTimeline
from netdyno.records.record import Plan, Proposal
from netdyno.records.trial import Change, Form, Prediction
from netdyno.targets.subject import Subject
from netdyno.trials.lab import AnyLab, Lab
from netdyno.trials.race import race

DATA_PHASES = ("data", "collate", "copy")
# Below a tenth of the step the data layer is left: curing it wholly gains less than 1.11 times.
STILL_THE_BOTTLENECK = 0.10
# A setting this much slower than the best of its race is out of it.
BEHIND = 1.10
MOST_SETTINGS = 4
NO_SETTING = "no setting of it is worth a trial here"
# A trial that takes this long counts as twice the effort of one that takes no time.
MANY_SECONDS = 10.0


def proposals(
    lab: Lab, subject: Subject, facts: Facts, *, recipe: tuple[Change, ...], trust: Mapping[str, float]
) -> tuple[Proposal, ...]:
    """Every intervention of the catalogue: what it should save here and now, or why it is not proposed."""
    taken = {change.id for change in recipe}
    return tuple(
        replace(found, seconds=lab.expected_s((*recipe, found.change)))
        for name in sorted(catalogue())
        if name not in taken
        for found in _of_kind(lab, name, subject, facts, trust.get(name, 1.0))
    )


def _of_kind(lab: Lab, name: str, subject: Subject, facts: Facts, trust: float) -> list[Proposal]:
    example = example_of(name)
    refused = example.refuses(subject) or unwanted(lab.plan, name, allowed=lab.workload.allowed.numerics)
    settings = () if refused else example.settings(subject, facts)[:MOST_SETTINGS]
    if not settings:
        return [proposal(example, trust, refused=refused or NO_SETTING)]
    return [
        weighed(lab.plan, setting, setting.predicts(facts), trust=trust, refused=setting.refuses(subject))
        for setting in settings
    ]


def weighed(
    plan: Plan, setting: Intervention, prediction: Prediction | None, *, trust: float, refused: str | None
) -> Proposal:
    """One setting in the queue of the walk, or why it is not: unfit, without a prospect, too small, or too dear."""
    if refused:
        return proposal(setting, trust, refused=refused)
    if prediction is None:
        return proposal(setting, trust, refused="the evidence rules out a gain")
    return proposal(setting, trust, prediction, refused=_too_small(plan, setting, prediction))


def _too_small(plan: Plan, setting: Intervention, prediction: Prediction) -> str | None:
    if setting.memory_only and prediction.high < -plan.time_price:
        return (
            f"it would cost at least {-prediction.high:.0%} of a step; {plan.time_price:.0%} may be lost for less memory "
            "(`--time-price`)"
        )
    if prediction.high < plan.least_gain and not setting.memory_only:
        return f"it could save at most {prediction.high:.1%} of a step; {plan.least_gain:.0%} is asked for"
    return None


def example_of(name: str) -> Intervention:
    """The first example of an intervention: its default setting."""
    first: Intervention = sys.modules[catalogue()[name].__module__].EXAMPLES[0]
    return first


def unwanted(plan: Plan, name: str, *, allowed: Iterable[str]) -> str | None:
    """Why the plan or the target's tolerance leaves an intervention out, if they do."""
    example = example_of(name)
    if plan.only and name not in plan.only:
        return "it is not among `--only`"
    if name in plan.skip:
        return "`--skip` leaves it out"
    if example.memory_only and plan.goal != "memory":
        return "it buys memory with time, and the goal is time (`--goal memory`)"
    if example.numerics not in plan.allow or example.numerics not in allowed:
        return f"its numerics are `{example.numerics}`, which is not allowed (`--allow`)"
    return None


def proposal(
    setting: Intervention, trust: float, prediction: Prediction | None = None, *, refused: str | None = None
) -> Proposal:
    """A setting written down with what it should save."""
    return Proposal(
        change=written(setting),
        layers=setting.layers,
        numerics=setting.numerics,
        predicted_low=prediction.low if prediction else 0.0,
        predicted_high=prediction.high if prediction else 0.0,
        why=prediction.why if prediction else "",
        effort=setting.effort,
        trust=trust,
        refused=refused,
    )


class Choice(NamedTuple):
    """The next intervention, with the settings of it that are worth a race."""

    id: str
    proposals: tuple[Proposal, ...]


def next_choice(
    proposed: Iterable[Proposal], *, tried: Mapping[str, float], timeline: StepTimeline | None
) -> Choice | None:
    """The data layer first while it is the bottleneck; else, and within it, the largest gain per effort.

    `tried` holds, by `remembered_as`, the prediction under which an intervention was tried before: it gets another
    trial only when its prospects have improved by half since, as they do when a bottleneck moves.
    """
    kinds: dict[str, list[Proposal]] = {}
    for proposal in proposed:
        if proposal.refused is None and _due(proposal, tried):
            kinds.setdefault(proposal.change.id, []).append(proposal)
    if not kinds:
        return None
    data_first = timeline is not None and timeline.share(*DATA_PHASES) >= STILL_THE_BOTTLENECK
    of_data = {name for name, rows in kinds.items() if rows[0].layers[0] == "data"}
    pool = of_data if data_first and of_data else set(kinds)
    best = max(sorted(pool), key=lambda name: max(map(_worth, kinds[name])))
    return Choice(best, tuple(kinds[best]))


def due(proposed: Iterable[Proposal], tried: Mapping[str, float]) -> set[str]:
    """The interventions that still wait for a trial."""
    return {each.change.id for each in proposed if each.refused is None and _due(each, tried)}


def _due(proposal: Proposal, tried: Mapping[str, float]) -> bool:
    before = tried.get(remembered_as(proposal.change))
    return before is None or (before >= 0 and _prospect(proposal) > 1.5 * before)


def remembered_as(change: Change) -> str:
    """Settings of one kind stand for each other, but where they buy memory: what is too dear may be had in part."""
    kind = catalogue().get(change.id)
    return change.label if kind is not None and kind.memory_only else change.id


def _prospect(proposal: Proposal) -> float:
    return (proposal.predicted_low + proposal.predicted_high) / 2


def _worth(proposal: Proposal) -> float:
    """What it should save, for a person's effort and for the machine's: the budget that one trial eats is lost to others."""
    return _prospect(proposal) * proposal.trust / (proposal.effort * (1 + proposal.seconds / MANY_SECONDS))


def best_setting(lab: AnyLab, choice: Choice, *, against: tuple[Change, ...]) -> Proposal:
    """The setting that wins a short race among all of a kind; losers leave the race early.

    The race only chooses: what the winner is worth is measured afterwards, on fresh pairs. A setting
    that cannot be run leaves too; when none can, the first is returned and its trial will say why.
    """
    if len(choice.proposals) == 1 or example_of(choice.id).memory_only:
        # Settings that buy memory come with the most of it first, and the quickest of them is the one that buys least.
        return choice.proposals[0]
    changes = [proposal.change for proposal in choice.proposals]
    form = lab.form(*((*against, change) for change in changes))
    with ExitStack() as stack:
        running: dict[int, Arm] = {}
        for position, change in enumerate(changes):
            try:
                arm = stack.enter_context(
                    closing(lab.open((*against, change), form, fresh=lab.fresh((*against, *changes))))
                )
                arm.turn(1)
                running[position] = arm
            except ArmError:
                continue
        if not running:
            return choice.proposals[0]
        try:
            scales = {position: items_factor_of((change,)) for position, change in enumerate(changes)}
            winner = _race_of_settings(lab, running, form, scales, doing=f"racing settings of {choice.id}")
        except ArmError:
            winner = next(iter(running))
    return choice.proposals[winner]


def _race_of_settings(lab: AnyLab, running: dict[int, Arm], form: Form, scales: dict[int, float], *, doing: str) -> int:
    steps, _ = lab.warm(list(running.values()), form)
    seen: dict[int, list[float]] = {position: [] for position in running}
    deadline = lab.clock() + lab.plan.trial_s / 3
    for _ in range(3):
        positions = list(running)
        rounds = race(
            [running[position] for position in positions],
            rounds=2,
            steps=steps,
            chance=lab.chance,
            waiting_limit=lab.plan.waiting_limit,
            listener=lab.listener,
            doing=doing,
        )
        for place, position in enumerate(positions):
            seen[position] += [done.seconds(place) / scales[position] for done in rounds]
        middle = {position: statistics.median(seen[position]) for position in positions}
        best = min(middle.values())
        running = {position: arm for position, arm in running.items() if middle[position] <= BEHIND * best}
        if len(running) == 1 or lab.clock() > deadline:
            break
    return min(running, key=lambda position: statistics.median(seen[position]))
