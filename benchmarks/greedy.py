"""Is the walk nearly optimal? The kept recipe against the best of an exhaustive grid over the same changes.

    python benchmarks/greedy.py garage:digits garage:resnet

The grid is every on/off combination of the changes that fit the workload (those that run in one process, compilation
left out on both sides), raced in one process; the best of the grid then meets the kept recipe on fresh pairs, so that
the best is not flattered by having been chosen. Writes docs/results/greedy.md.

A walk that keeps what saves at least `--least-gain` leaves up to that much of a step lying, change by change, and is
meant to: 97 % of the best can be asked only of a walk that minds less than 3 %.
"""

import argparse
import itertools
import random
import statistics
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import specimens
from netdyno import bench
from netdyno.records.record import Plan, Record
from netdyno.records.trial import Change
from netdyno.stats.paired import gain
from netdyno.store import Store
from netdyno.targets.workload import load
from netdyno.trials.lab import Lab
from netdyno.trials.race import race
from netdyno.verdicts.attribute import key_of

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "greedy.md"
OUT_OF_PROCESS = ("loader-workers", "prefetch-factor", "persistent-workers", "pin-memory", "wait-policy")
LEFT_OUT = (*OUT_OF_PROCESS, "compile-model", "allocator", "glibc-arena-reuse")
MOST_CHANGES = 7


def axes(record: Record) -> list[Change]:
    """One change per intervention that fits the workload: the kept setting, else the first that was proposed."""
    found: dict[str, Change] = {}
    for proposal in record.proposals:
        fits = proposal.refused is None or proposal.predicted_high > 0
        if fits:
            found.setdefault(proposal.change.id, proposal.change)
    for trial in record.trials:
        found[trial.change.id] = trial.change
    for change in record.recipe:
        found[change.id] = change
    kept = {change.id for change in record.recipe}
    return sorted(found.values(), key=lambda change: (change.id not in kept, change.id))[:MOST_CHANGES]


def grid(reference: str, changes: list[Change], rounds: int) -> tuple[tuple[Change, ...], int]:
    """The best recipe of all combinations, and how many there are. A combination that fails to run is left out."""
    lab = Lab(reference=reference, workload=load(reference), plan=Plan(), chance=random.Random(3))
    recipes = [
        tuple(itertools.compress(changes, mask)) for mask in itertools.product((False, True), repeat=len(changes))
    ]
    seconds: dict[int, float] = {}
    groups = [recipes[start : start + 16] for start in range(0, len(recipes), 16)]
    for number, group in enumerate(groups):
        with ExitStack() as stack:
            running = {}
            # The baseline runs in every group, so that drift between groups is divided out.
            for position, recipe in enumerate([(), *group]):
                try:
                    arm = stack.enter_context(closing(lab.open(recipe, "in-process")))
                    arm.turn(1)
                    running[position] = arm
                except Exception:
                    continue
            steps, _ = lab.warm(list(running.values()), "in-process")
            done = race(list(running.values()), rounds=rounds, steps=steps, chance=lab.chance)
            for place, position in enumerate(running):
                if position:
                    ratio = [each.seconds(place) / each.seconds(0) for each in done]
                    seconds[number * 16 + position - 1] = statistics.median(ratio)
    return recipes[min(seconds, key=seconds.__getitem__)], len(recipes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["garage:digits", "garage:resnet"])
    parser.add_argument("--budget", type=float, default=240.0)
    parser.add_argument("--least-gain", type=float, default=Plan().least_gain)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=60)
    options = parser.parse_args()
    lines = [
        "# Greedy against the grid", "",
        f"Made by `python benchmarks/greedy.py {' '.join(sys.argv[1:])}`, {specimens.here()}.", "",
        f"The walk keeps what saves at least {options.least_gain:.0%} of a step.", "",
        "| workload | kept recipe | best of the grid | kept reaches, of the best (95 %) | trials / grid |",
        "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for reference in options.workloads:
        with tempfile.TemporaryDirectory() as folder:
            plan = Plan(budget_s=options.budget, skip=LEFT_OUT, least_gain=options.least_gain)
            record = bench.tune(reference, plan, store=Store(folder))
        best, size = grid(reference, axes(record), options.rounds)
        lab = Lab(reference=reference, workload=load(reference), plan=Plan(), chance=random.Random(5))
        reached = "100 % (the same recipe)"
        if key_of(best) != key_of(record.recipe):
            with ExitStack() as stack:
                arms = [stack.enter_context(closing(lab.open(r, "in-process"))) for r in (best, record.recipe)]
                steps, _ = lab.warm(arms, "in-process")
                done = race(arms, rounds=options.pairs, steps=steps, chance=lab.chance)
            lost = gain([each.seconds(1) for each in done], [each.seconds(0) for each in done], level=0.95)
            reached = f"{1 - lost.middle:.1%} ({1 - lost.high:.1%} to {1 - lost.low:.1%})"
        lines.append(
            f"| {reference} | {', '.join(c.label for c in record.recipe) or 'nothing'} "
            f"| {', '.join(c.label for c in best) or 'nothing'} | {reached} "
            f"| {len(record.trials)} / {size} = {len(record.trials) / size:.0%} |"
        )
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
