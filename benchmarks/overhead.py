"""How much slower a step is with all that measures on: on against off, in one process, in random order within pairs.

    python benchmarks/overhead.py --pairs 60 --write docs/results/overhead.md

Aimed at: at most 1 % of a step of 10 ms or more in the median, and at most 0.1 ms. Beside the difference in time, which a busy machine
blurs, stands what the readings cost, weighed in place: the stopwatch's in a step, and the two looks around each turn at what goes on beside it.
"""

import argparse
import os
from pathlib import Path
from statistics import median

import torch

from netdyno.arms import steps_per_turn
from netdyno.measure.selfcost import cost, overhead
from netdyno.stats.paired import hodges_lehmann, log_ratios
from netdyno.targets.workload import Workload, load
from netdyno.trials.lab import TURN_S

WORKLOADS = ("garage:digits", "garage:resnet", "garage:transformer", "garage:tiny")
MOST, MOST_S, LONG_S = 0.01, 1e-4, 0.010


def turn_of(workload: Workload, *, seed: int) -> int:
    """How many steps a trial in one process puts into a turn."""
    first = overhead(workload, pairs=3, steps=2, seed=seed)
    return steps_per_turn(min(first.off), TURN_S["in-process"])


def row(reference: str, *, pairs: int, steps: int, seed: int) -> tuple[str, bool]:
    """One line of the table, and whether the target is met."""
    workload = load(reference)
    steps = steps or turn_of(workload, seed=seed)
    found = overhead(workload, pairs=pairs, steps=steps, seed=seed)
    ratio = hodges_lehmann(log_ratios(found.on, found.off), 0.95)  # above 0 where on takes longer
    step_s = median(found.off)
    paid = cost(workload, seed=seed, steps=steps)
    readings = paid.step
    added = [on - off for on, off in zip(found.on, found.off, strict=True)]
    absolute = hodges_lehmann(added, 0.95)
    # The share is aimed at for steps of ten milliseconds and more; below, the absolute cost counts.
    met = readings <= MOST_S and (ratio.middle <= MOST or step_s < LONG_S)
    line = (
        f"| {reference} | {step_s * 1e3:.2f} | {steps} | {ratio.middle:+.2%} | {ratio.low:+.2%} to {ratio.high:+.2%} | "
        f"{absolute.middle * 1e6:+.0f} | {absolute.low * 1e6:+.0f} to {absolute.high * 1e6:+.0f} | "
        f"{readings * 1e6:.0f} | {readings / step_s:.2%} | {paid.turn * 1e6:.0f} | {'yes' if met else 'NO'} |"
    )
    return line, met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=0, help="of a turn; 0 for as many as a trial would take")
    parser.add_argument("--threads", type=int, default=1, help="more than the free cores, and barriers drown the rest")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="a Markdown file for the result")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [row(name, pairs=options.pairs, steps=options.steps, seed=options.seed) for name in options.workloads]
    lines = [
        "# What the stopwatch costs",
        "",
        (
            f"`python benchmarks/overhead.py --pairs {options.pairs}`: one subject takes turns as a trial does, and the same "
            f"steps bare, in random order within each pair, {options.threads} thread, "
            f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores. Hodges–Lehmann estimates with "
            "their 95 % intervals; times are running plus blocked. `readings` is what "
            "the clock readings of a step cost, each weighed where it is taken, in time on a core; `looks` what the two looks "
            "around a turn cost, which happen outside the time that is measured. The difference holds both and a turn's "
            "arithmetic, and more than them where the machine is busy: a thread that enters the kernel more often is also put "
            "aside a little more often, and comes back to cold caches."
        ),
        "",
        "| workload | step, ms | steps of a turn | on against off | 95 % | µs per step | 95 % | readings, µs | of the step | looks, µs per turn | as aimed at |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(line for line, _ in rows),
        "",
    ]
    print("\n".join(lines))
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text("\n".join(lines))
    raise SystemExit(0 if all(met for _, met in rows) else 1)


if __name__ == "__main__":
    main()
