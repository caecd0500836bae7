"""How equal two equal sides look, in each form of arm; and what freezing a side between turns does to its steps.

    python benchmarks/arm_bias.py --target garage:digits --spawns 4 --pairs 25

First table: A/A, both sides under the same recipe and seed, in random order within pairs. One line per spawn (both
sides are built anew) and one for all spawns, with the spawn as the unit of replication. Within a process an interval
should hold 0; between processes a single spawn often does not, and the spread over spawns is the reason why
trials between processes respawn their sides.

Second table: the same resident takes its steps in short turns with freezes between them, and in long ones. What is
above 0 is the price of being frozen that a turn carries, a gift below 0.
"""

import argparse
import random
from contextlib import ExitStack, closing
from statistics import stdev

import torch

from netdyno.arms import Arm, open_arm, steps_per_turn
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.stats.paired import hodges_lehmann, log_ratios
from netdyno.stats.spread import over_spawns

FORMS = {
    "in-process": {"form": "in-process"},
    "forked": {"form": "processes"},
    "fresh": {"form": "processes", "fresh": True},
}
LEVEL = 0.95
SHORT, LONG = 1, 8  # rotations of the loader workers in a turn


def spawn(target: str, recipe: tuple[Change, ...], how: str, *, pairs: int, turn_s: float, workers: int, seed: int):
    """The log ratios of one pair of equal sides."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        sides = [stack.enter_context(closing(open_arm(target, recipe, seed=0, **FORMS[how]))) for _ in range(2)]
        step_s = max(side.turn(2 * max(1, workers)).per_step for side in sides)
        steps = steps_per_turn(step_s, turn_s, workers=workers)
        for side in sides:
            side.turn(steps)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(pairs):
            order = [0, 1]
            chance.shuffle(order)
            for position in order:
                times[position].append(sides[position].turn(steps).per_step)
    return log_ratios(*times)


def shown(interval: Interval) -> str:
    """In per cent, with the range."""
    return f"{interval.middle:+7.2%}  [{interval.low:+7.2%}, {interval.high:+7.2%}]"


def bias(target: str, recipe: tuple[Change, ...], how: str, *, spawns: int, **settings: float) -> None:
    """The lines of one form."""
    found = []
    for number in range(spawns):
        found.append(spawn(target, recipe, how, seed=number, **settings))
        print(f"{how:<11} spawn {number + 1:>2}   {shown(hodges_lehmann(found[-1], LEVEL))}", flush=True)
    middles = [hodges_lehmann(values, LEVEL).middle for values in found]
    spread = f"standard deviation over spawns {stdev(middles):.2%}" if spawns > 1 else ""
    print(f"{how:<11} all        {shown(over_spawns(found, LEVEL))}  {spread}", flush=True)


def freezing(side: Arm, *, pairs: int, workers: int) -> Interval:
    """How much longer a step takes in turns of one rotation than in turns of eight."""
    rotation = max(1, workers)
    chance = random.Random(0)
    side.turn(LONG * rotation)
    short, long = [], []
    for _ in range(pairs):
        rows = [(short, SHORT), (long, LONG)]
        chance.shuffle(rows)
        for row, rotations in rows:
            turns = [side.turn(rotations * rotation) for _ in range(LONG // rotations)]
            row.append(sum(turn.time.own for turn in turns) / sum(turn.steps for turn in turns))
    return hodges_lehmann(log_ratios(short, long), LEVEL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="garage:digits")
    parser.add_argument("--forms", nargs="*", choices=FORMS, default=list(FORMS), help="none: only the second table")
    parser.add_argument("--spawns", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--turn-s", type=float, default=0.1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    recipe = (Change(id="loader-workers", settings={"workers": options.workers}),) if options.workers else ()
    print(f"{options.target}, {options.workers} loader workers, {options.threads} threads: A/A, share of a step")
    for how in options.forms:
        bias(
            options.target,
            recipe,
            how,
            spawns=options.spawns,
            pairs=options.pairs,
            turn_s=options.turn_s,
            workers=options.workers,
        )
    print(f"\nturns of {max(1, options.workers)} steps against turns of {LONG * max(1, options.workers)}:")
    with closing(open_arm(options.target, recipe, form="processes", seed=0)) as side:
        print(f"a step is longer by {shown(freezing(side, pairs=options.pairs, workers=options.workers))}")


if __name__ == "__main__":
    main()
