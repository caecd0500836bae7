"""The kept recipe, taken apart: every rung of the ladder raced in processes of its own, respawned several times."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import NamedTuple

from netdyno.interventions._base import items_factor_of
from netdyno.progress import Event
from netdyno.records.trial import ArmTimes, Change, Form
from netdyno.trials.lab import AnyLab
from netdyno.trials.race import Round, race
from netdyno.verdicts.attribute import ladder, speedup

ROUNDS = 3  # of all rungs, per spawn
CHECKS = 6  # rounds of baseline against final alone, per spawn
FEWEST_SPAWNS = 3  # below this a t-interval over spawns says nothing
RUNGS_SHARE = 0.6  # of the budget; the total, which is what is claimed, gets the rest
# While the budget lasts, spawns go on to this multiple of the plan's number, until the claim is this narrow.
MORE_SPAWNS = 3
NARROW = 0.08

Times = tuple[tuple[float, ...], ...]


class Climb(NamedTuple):
    """Seconds per step by spawn and round: of every rung, and of the two ends, measured apart in spawns of their own."""

    arms: tuple[ArmTimes, ...]
    check_baseline: Times
    check_final: Times


def climb(lab: AnyLab, order: tuple[Change, ...], *, budget_s: float, rungs: bool = True) -> Climb:
    """Race the rungs of `order`, then its two ends alone. `rungs=False` races the ends only, for a replay.

    Where all rungs can be switched between steps, one process runs them all. Between processes there are never fewer
    than three spawns: two identical processes differ by a few per cent through memory layout, so
    the spawn is what is replicated. The ends go on until the budget is spent or the claim's interval is narrow; when
    to stop depends on its width alone, never on the gain. Raises ArmError.
    """
    began = lab.clock()
    spawns = max(lab.plan.spawns, FEWEST_SPAWNS)
    recipes = ladder(order) if rungs else ()
    form = lab.rungs(recipes)
    times: list[Times] = []
    if recipes:
        times = _spawned(
            lab,
            recipes,
            form,
            rounds=ROUNDS if form == "processes" else ROUNDS * spawns,
            spawns=spawns if form == "processes" else 1,
            ends=began + RUNGS_SHARE * budget_s,
            doing="rungs",
        )

    def narrow(taken: list[Times]) -> bool:
        if len(taken[0]) < spawns:
            return False
        claim = speedup(taken[0], taken[1], level=lab.plan.level)
        return claim.width <= NARROW * claim.middle

    check = _spawned(
        lab,
        ((), order),
        "processes",
        rounds=CHECKS,
        spawns=MORE_SPAWNS * spawns,
        ends=began + budget_s,
        enough=narrow,
        doing="baseline and final",
    )
    return Climb(
        arms=tuple(ArmTimes(recipe=recipe, times=rows) for recipe, rows in zip(recipes, times, strict=True)),
        check_baseline=check[0],
        check_final=check[1],
    )


def _spawned(
    lab: AnyLab,
    recipes: tuple[tuple[Change, ...], ...],
    form: Form,
    *,
    rounds: int,
    spawns: int,
    ends: float,
    enough: Callable[[list[Times]], bool] = lambda _: False,
    doing: str,
) -> list[Times]:
    """Per recipe, seconds per item of the original step by spawn and round."""
    factors = [items_factor_of(recipe) for recipe in recipes]
    taken: list[Times] = [() for _ in recipes]
    began = lab.clock()
    for spawn in range(spawns):
        expected = (lab.clock() - began) * (spawn + 1) / max(spawn, 1)
        if spawn >= FEWEST_SPAWNS and (began + expected > ends or enough(taken)):
            break
        lab.listener(Event(f"attributing the gain: {doing}", spawn, spawns))
        raced = _spawn(lab, recipes, form, rounds)
        taken = [
            (*rows, tuple(done.seconds(position) / factors[position] for done in raced))
            for position, rows in enumerate(taken)
        ]
    return taken


def _spawn(lab: AnyLab, recipes: tuple[tuple[Change, ...], ...], form: Form, rounds: int) -> list[Round]:
    with ExitStack() as stack:
        built = {
            position: stack.enter_context(closing(lab.open(recipes[position], form, fresh=lab.fresh(*recipes))))
            for position in lab.chance.sample(range(len(recipes)), len(recipes))
        }
        arms = [built[position] for position in range(len(recipes))]
        steps, _ = lab.warm(arms, form)
        return race(arms, rounds=rounds, steps=steps, chance=lab.chance, waiting_limit=lab.plan.waiting_limit)
