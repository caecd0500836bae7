"""What riding aboard costs a script: every patch on against off, in one process, in random order within pairs of turns.

    python benchmarks/script_overhead.py --pairs 60 --write docs/results/script-overhead.md

Aimed at: at most 50 µs per update, and less than 0.5 % of updates of 10 ms. Beside the difference in time, which a busy
machine blurs, stand the same design with nothing switched (A/A), and what the patches run: Python calls per update,
counted with `sys.setprofile`, which no machine blurs.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
import torch.nn.functional as F

from netdyno.aboard.config import Config
from netdyno.aboard.observe import Observer
from netdyno.stats.paired import hodges_lehmann, log_ratios

MOST_S, MOST, LONG_S = 50e-6, 0.005, 0.010


class MLP(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class Loop(NamedTuple):
    """A training loop that can be told to make so many updates."""

    name: str
    update: Callable[[], None]


def _loop(name, net, x, y, kind) -> Loop:
    data = torch.utils.data.TensorDataset(x.repeat(64, *[1] * (x.dim() - 1)), y.repeat(64, *[1] * (y.dim() - 1)))
    loader = torch.utils.data.DataLoader(data, batch_sampler=Batches(len(x), 64))
    optimizer = kind(net.parameters(), lr=1e-4, foreach=True)

    def forever():
        while True:
            yield from loader

    batches = forever()

    def update() -> None:
        x, y = next(batches)
        optimizer.zero_grad()
        output = net(x)
        loss = F.cross_entropy(output.flatten(0, -2), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        loss.item()

    return Loop(name, update)


class Batches:
    """Whole slices, so that a batch costs little and the loop is mostly training."""

    def __init__(self, size, number):
        self.size, self.number = size, number

    def __iter__(self):
        for at in range(self.number):
            yield range(at * self.size, (at + 1) * self.size)

    def __len__(self):
        return self.number


def mlp() -> Loop:
    return _loop("MLP, 8 layers", MLP(128), torch.randn(8, 128), torch.randint(0, 128, (8,)), torch.optim.SGD)


def cnn() -> Loop:
    layers = [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10))
    return _loop("CNN, 13 modules", net, torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,)), torch.optim.SGD)


def transformer() -> Loop:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(64, 64)
            layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
            self.body = torch.nn.TransformerEncoder(layer, 4)
            self.head = torch.nn.Linear(64, 64)

        def forward(self, x):
            return self.head(self.body(self.embed(x)))

    tokens = torch.randint(0, 64, (8, 32))
    return _loop("transformer, 4 layers", Net(), tokens, tokens, torch.optim.AdamW)


def turn(loop: Loop, steps: int) -> float:
    """Seconds on a core for one update."""
    began = time.thread_time_ns()
    for _ in range(steps):
        loop.update()
    return (time.thread_time_ns() - began) / 1e9 / steps


class Switch:
    """Every patch on, or every patch gone."""

    def __init__(self) -> None:
        # The line keeps bursts away: the price is that of an update which is watched.
        self.observer = Observer(Config(folder="", hz=0, line="none"))

    def turn(self, on: bool) -> None:
        observer = self.observer
        if on:
            observer.apply()
        else:
            observer.remove()
            observer.account.on = False
            observer.account.stack.clear()
            observer.training_thread = None

    def once(self, loop: Loop) -> None:
        loop.update()


def pairs_of(loop: Loop, *, pairs: int, steps: int, seed: int, switch: bool) -> tuple[list[float], list[float]]:
    """Times with and without, pair by pair; without `switch` the same is done with nothing switched."""
    order, rider = random.Random(seed), Switch()
    with_it, without = [], []
    for _ in range(pairs):
        sides = [True, False]
        order.shuffle(sides)
        for side in sides:
            if switch and side:
                rider.turn(True)
            for _ in range(2):  # classes whose attributes changed find them anew
                loop.update()
            (with_it if side else without).append(turn(loop, steps))
            if switch and side:
                rider.turn(False)
    return with_it, without


def calls(loop: Loop, *, on: bool, steps: int = 20) -> float:
    """Python and C calls that one update makes."""
    rider, number = Switch(), 0

    def count(frame, event, arg):
        nonlocal number
        number += event in ("call", "c_call")

    if on:
        rider.turn(True)
    for _ in range(40):  # past the first updates, in which more is looked at
        loop.update()
    sys.setprofile(count)
    for _ in range(steps):
        loop.update()
    sys.setprofile(None)
    if on:
        rider.turn(False)
    return number / steps


def row(make: Callable[[], Loop], *, pairs: int, steps: int, seed: int) -> tuple[str, bool]:
    """One line of the table, and whether what was aimed at is reached."""
    loop = make()
    turn(loop, 20)
    on, off = pairs_of(loop, pairs=pairs, steps=steps, seed=seed, switch=True)
    same, again = pairs_of(loop, pairs=pairs, steps=steps, seed=seed + 1, switch=False)
    ratio = hodges_lehmann(log_ratios(on, off), 0.95)
    nothing = hodges_lehmann(log_ratios(same, again), 0.95)
    added = hodges_lehmann([a - b for a, b in zip(on, off, strict=True)], 0.95)
    more = calls(loop, on=True) - calls(loop, on=False)
    step = median(off)
    met = added.middle <= MOST_S and (ratio.middle < MOST or step < LONG_S)
    line = (
        f"| {loop.name} | {step * 1e3:.2f} | {added.middle * 1e6:+.0f} | {added.low * 1e6:+.0f} to {added.high * 1e6:+.0f} | "
        f"{ratio.middle:+.2%} | {ratio.low:+.2%} to {ratio.high:+.2%} | {nothing.low:+.2%} to {nothing.high:+.2%} | "
        f"{more:.0f} | {'yes' if met else 'NO'} |"
    )
    return line, met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", type=Path, help="a Markdown file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rows = [row(make, pairs=options.pairs, steps=options.steps, seed=options.seed) for make in (mlp, cnn, transformer)]
    lines = [
        "# What riding aboard costs a script",
        "",
        (
            f"`python benchmarks/script_overhead.py --pairs {options.pairs} --steps {options.steps}`: in one process, "
            f"{options.steps} updates with every patch in place and {options.steps} with every patch gone, in random order "
            "within each pair. Times are those of the training thread on a core, one thread; Hodges–Lehmann estimates with "
            f"their 95 % intervals; load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores. A/A is the "
            "same design with nothing switched. Calls are Python and C calls that an update makes more."
        ),
        "",
        "| loop | update, ms | µs more | 95 % | on against off | 95 % | A/A, 95 % | calls more | as aimed at |",
        "|---|---|---|---|---|---|---|---|---|",
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
