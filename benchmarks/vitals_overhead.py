"""What looking at the numbers costs an update: the vitals on against off, in one process, in random order within rounds.

    taskset -c 1 python benchmarks/fault_bench.py --overhead

The loops are those of script_overhead.py. A ride without vitals is compared with one with them, and with another one without
them (A/A); turns are long enough that a look and the updates it is paid from lie in one turn.
"""

from math import expm1
from pathlib import Path
from statistics import median

import torch
from benchmarks import script_overhead
from benchmarks.fault_bench import keep, say
from benchmarks.script_overhead import Loop, Switch, cnn, mlp, rounds_of, transformer

from netdyno.aboard.config import Config
from netdyno.aboard.observe import Observer
from netdyno.stats.paired import hodges_lehmann, log_ratios

ROUNDS = 16
# Two seconds of the quickest loop are 4000 updates: a budget of 2 % of the time is then 40 ms, some tens of looks.
TURN_S = 2.0
AIM = 0.03  # of an update, on micro models


class Looking(Switch):
    """Every patch on, and the numbers looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = Observer(Config(folder="", hz=0, line="none", vitals=True))


class Riding(Switch):
    """The same ride without a look at the numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.observer = Observer(Config(folder="", hz=0, line="none"))


def line(loop: Loop) -> str:
    """One row: what the vitals add, and what nothing adds."""
    step = script_overhead.turn(loop, 50)
    steps = min(4000, max(40, int(TURN_S / step)))
    riders = {"off": Riding(), "again": Riding(), "looking": Looking()}
    found = rounds_of(loop, riders, rounds=ROUNDS, steps=steps, seed=0)
    looking = hodges_lehmann(log_ratios(found["looking"], found["off"]), 0.95)
    nothing = hodges_lehmann(log_ratios(found["again"], found["off"]), 0.95)
    words = [
        f"{expm1(each.middle):+.1%} ({expm1(each.low):+.1%} to {expm1(each.high):+.1%})" for each in (looking, nothing)
    ]
    kept = "yes" if expm1(looking.high) <= AIM else "NO" if expm1(looking.low) > AIM else "not decided"
    return f"| {loop.name} | {median(found['off']) * 1e3:.2f} | {words[0]} | {words[1]} | {kept} |"


def main(root: Path) -> None:
    """Keeps the table for the page."""
    torch.set_num_threads(1)
    lines = [
        f"The vitals toggled in one process, {ROUNDS} rounds in random order, a ride with a look at the numbers against one without",
        "(time of the training thread on a core; Hodges–Lehmann estimates of the ratio with 95 % intervals):",
        "",
        f"| loop | update, ms | with vitals | A/A | at most {AIM:.0%} |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for make in (mlp, cnn, transformer):
        lines.append(line(make()))
        say(lines[-1])
    keep(root / "overhead.json", {"lines": lines})
    print("\n".join(lines))
