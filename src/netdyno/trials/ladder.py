"""The kept recipe, taken apart: every rung of the ladder raced in processes of its own, respawned several times."""

from contextlib import ExitStack, closing
from typing import NamedTuple

from netdyno.interventions._base import items_factor_of
from netdyno.progress import Event
from netdyno.records.trial import ArmTimes, Change
from netdyno.trials.lab import Lab
from netdyno.trials.race import Round, race
from netdyno.verdicts.attribute import ladder, speedup

ROUNDS = 4  # of all rungs, per spawn
CHECKS = 8  # rounds of baseline against final alone, per spawn: the total is measured apart from its parts
FEWEST_SPAWNS = 3  # below this a t-interval over spawns says nothing
# While the budget lasts, spawns go on to this multiple of the plan's number, until the claim is this narrow.
MORE_SPAWNS = 3
NARROW = 0.05


class Climb(NamedTuple):
    """Seconds per step by spawn and round, of every rung and of the two ends measured apart."""

    arms: tuple[ArmTimes, ...]
    check_baseline: tuple[tuple[float, ...], ...]
    check_final: tuple[tuple[float, ...], ...]
    waiting_share: float


def climb(lab: Lab, order: tuple[Change, ...], *, budget_s: float, rungs: bool = True) -> Climb:
    """Race the rungs of `order`. `rungs=False` races the two ends only, for a replay.

    There are never fewer than three spawns: two identical processes differ by a few per cent through memory layout, so
    the spawn is what is replicated. The plan's number is taken while the budget lasts, and more until the claim's
    interval is narrow; when to stop depends on its width alone, never on the gain.
    Raises ArmError.
    """
    recipes = ladder(order) if rungs else ((), order)
    factors = [items_factor_of(recipe) for recipe in recipes]
    began = lab.clock()
    times: list[list[tuple[float, ...]]] = [[] for _ in recipes]
    checks: tuple[list[tuple[float, ...]], list[tuple[float, ...]]] = ([], [])
    waiting: list[float] = []
    spawns = max(lab.plan.spawns, FEWEST_SPAWNS)
    for spawn in range(MORE_SPAWNS * spawns):
        spent = lab.clock() - began
        if spawn >= FEWEST_SPAWNS and spent * (spawn + 1) / spawn > budget_s:
            break
        if spawn >= spawns and _narrow(*checks, level=lab.plan.level):
            break
        lab.listener(Event("attributing the gain", spawn, spawns))
        rounds, ends = _spawn(lab, recipes)
        for position, kept in enumerate(times):
            kept.append(tuple(done.seconds(position) / factors[position] for done in rounds))
        for position, kept in enumerate(checks):
            kept.append(tuple(done.seconds(position) / (1.0, items_factor_of(order))[position] for done in ends))
        waiting += [turn.waiting_share for done in (*rounds, *ends) for turn in done.turns]
    return Climb(
        arms=tuple(ArmTimes(recipe=recipe, times=tuple(rows)) for recipe, rows in zip(recipes, times, strict=True)),
        check_baseline=tuple(checks[0]),
        check_final=tuple(checks[1]),
        waiting_share=sum(waiting) / max(len(waiting), 1),
    )


def _narrow(baseline: list[tuple[float, ...]], final: list[tuple[float, ...]], *, level: float) -> bool:
    claim = speedup(tuple(baseline), tuple(final), level=level)
    return claim.width <= NARROW * claim.middle


def _spawn(lab: Lab, recipes: tuple[tuple[Change, ...], ...]) -> tuple[list[Round], list[Round]]:
    with ExitStack() as stack:
        built = {
            position: stack.enter_context(closing(lab.open(recipes[position], "processes", fresh=lab.fresh(*recipes))))
            for position in lab.chance.sample(range(len(recipes)), len(recipes))
        }
        arms = [built[position] for position in range(len(recipes))]
        steps, _ = lab.warm(arms, "processes")
        limit = lab.plan.waiting_limit
        rounds = race(arms, rounds=ROUNDS, steps=steps, chance=lab.chance, waiting_limit=limit)
        last = max(range(len(recipes)), key=lambda position: len(recipes[position]))
        ends = race([arms[0], arms[last]], rounds=CHECKS, steps=steps, chance=lab.chance, waiting_limit=limit)
    return rounds, ends
