"""What riding aboard costs a script: every patch on against off, in one process, in random order within rounds of turns.

    taskset -c 1 python benchmarks/script_overhead.py --rounds 30 --write docs/results/script-overhead.md

Aimed at: that a script pays at most 50 µs per update, and less than 0.5 % of updates of 10 ms. Beside the difference in time, which a busy
machine blurs, stand the same design with nothing switched (A/A), and what the patches run: Python and C calls per update,
counted with `sys.setprofile`, which no machine blurs. Quick updates are watched in bursts: their price is told for an
update that is watched, for one between bursts, and for the mixture that a script pays.
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
from netdyno.aboard.observe import BURST, PERIOD, QUICK_NS, Observer
from netdyno.stats.paired import hodges_lehmann, log_ratios

MOST_S, MOST, LONG_S = 50e-6, 0.005, 0.010
# The interpreter remembers at each place in torch's code what it found there, and forgets it when a patch comes or goes;
# it takes some fifty passes until it has learned anew. A script meets that once, at its start; here it would be met in
# each turn, and cost more than the patches.
WARM = 60


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
    return _loop("MLP, 9 modules, SGD", MLP(128), torch.randn(8, 128), torch.randint(0, 128, (8,)), torch.optim.SGD)


def adam() -> Loop:
    layers = [layer for _ in range(5) for layer in (torch.nn.Linear(128, 128), torch.nn.ReLU())]
    x, y = torch.randn(8, 128), torch.randint(0, 128, (8,))
    return _loop("MLP, 11 modules, Adam", torch.nn.Sequential(*layers), x, y, torch.optim.Adam)


def cnn() -> Loop:
    layers = [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU()]
    for _ in range(3):
        layers += [torch.nn.Conv2d(16, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10))
    return _loop("CNN, 15 modules, SGD", net, torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,)), torch.optim.SGD)


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
    return _loop("transformer, 40 modules, AdamW", Net(), tokens, tokens, torch.optim.AdamW)


def turn(loop: Loop, steps: int) -> float:
    """Seconds on a core for one update."""
    began = time.thread_time_ns()
    for _ in range(steps):
        loop.update()
    return (time.thread_time_ns() - began) / 1e9 / steps


class Switch:
    """Every patch on, or every patch gone; on and resting is what it is between bursts."""

    def __init__(self, *, resting: bool = False) -> None:
        self.resting = resting
        # The line keeps bursts away: the price is that of an update which is watched.
        self.observer = Observer(Config(folder="", hz=0, line="none"))

    def on(self, loop: Loop) -> None:
        observer = self.observer
        observer.apply()
        loop.update()
        if self.resting:
            observer.updates = 1  # far from the next burst
            observer._rest(PERIOD)

    def off(self) -> None:
        observer = self.observer
        observer.remove()
        observer.boundary.clear()
        observer.account.on = False
        observer.account.stack.clear()
        observer.training_thread = None


def rounds_of(loop: Loop, riders: dict[str, Switch | None], *, rounds: int, steps: int, seed: int) -> dict:
    """Seconds of an update for each rider, round by round."""
    order, names = random.Random(seed), list(riders)
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            rider = riders[name]
            if rider is not None:
                rider.on(loop)
            for _ in range(WARM):
                loop.update()
            found[name].append(turn(loop, steps))
            if rider is not None:
                rider.off()
    return found


def calls(loop: Loop, rider: Switch | None, *, steps: int = 32) -> float:
    """Python and C calls that one update makes; over as many updates as pass between two closer looks."""
    number = 0

    def count(frame, event, arg):
        nonlocal number
        number += event in ("call", "c_call")

    if rider is not None:
        rider.on(loop)
    for _ in range(64):  # past the first updates, in which more is looked at
        loop.update()
    sys.setprofile(count)
    for _ in range(steps):
        loop.update()
    sys.setprofile(None)
    if rider is not None:
        rider.off()
    return number / steps


class Price(NamedTuple):
    """What an update costs more, in seconds, with its interval."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle * 1e6:+.0f} ({self.low * 1e6:+.0f} to {self.high * 1e6:+.0f})"


def price(on: list[float], off: list[float]) -> Price:
    """Hodges and Lehmann's estimate of the differences."""
    found = hodges_lehmann([a - b for a, b in zip(on, off, strict=True)], 0.95)
    return Price(found.middle, found.low, found.high)


def reached(paid: Price, ratio) -> str:
    """Whether the whole interval keeps to what was aimed at, or breaks it; on a busy machine often neither."""
    ends = [(paid.low - MOST_S, paid.high - MOST_S)]
    if ratio is not None:
        ends.append((ratio.low - MOST, ratio.high - MOST))
    if any(low > 0 for low, _ in ends):
        return "NO"
    return "yes" if all(high <= 0 for _, high in ends) else "not decided"


def row(make: Callable[[], Loop], *, rounds: int, steps: int, seed: int) -> tuple[str, str]:
    """One line of the table, and whether what was aimed at is reached."""
    loop = make()
    turn(loop, 20)
    riders = {"off": None, "again": None, "watched": Switch(), "resting": Switch(resting=True)}
    found = rounds_of(loop, riders, rounds=rounds, steps=steps, seed=seed)
    off = found["off"]
    step, load = median(off), os.getloadavg()[0]
    watched, resting, nothing = (price(found[name], off) for name in ("watched", "resting", "again"))
    share = BURST / PERIOD
    mixed = [share * w + (1 - share) * r for w, r in zip(found["watched"], found["resting"], strict=True)]
    paid = price(mixed, off) if step < QUICK_NS / 1e9 else watched
    ratio = hodges_lehmann(log_ratios(found["watched"] if paid is watched else mixed, off), 0.95)
    bare = calls(loop, None)
    more = [calls(loop, Switch(resting=rests)) - bare for rests in (False, True)]
    met = reached(paid, ratio if step >= LONG_S else None)
    line = (
        f"| {loop.name} | {step * 1e3:.2f} | {watched} | {resting} | {nothing} | {paid} | "
        f"{ratio.middle:+.2%} ({ratio.low:+.2%} to {ratio.high:+.2%}) | {bare:.0f} | {more[0]:+.0f} | {more[1]:+.0f} | "
        f"{load:.1f} | {met} |"
    )
    return line, met


HEAD = """# What riding aboard costs a script

`python benchmarks/script_overhead.py --rounds {rounds} --steps {steps}`: in one process, turns of {steps} updates with every
patch in place (watched), with every patch in place but between two bursts (resting), and twice with every patch gone, in
random order within each round. Times are those of the training thread on a core, one thread, µs more per update than
without; Hodges–Lehmann estimates with their 95 % intervals. A/A is one of the two turns without against the other. Updates
under {quick:.0f} ms are watched {burst} of {period}; what a script pays is then the mixture, and else the price of a watched one.
Calls are Python and C calls of one update, and how many more there are watched and resting. The line sampler, a thread that
looks 50 times a second, is off here, as in races.

| loop | update, ms | watched, µs more | resting, µs more | A/A, µs | paid, µs | paid, of the update | calls | watched | resting | load | as aimed at |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="loops to run: mlp, adam, cnn, transformer")
    parser.add_argument("--write", type=Path, help="a Markdown file for the result")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    chosen = [m for m in (mlp, adam, cnn, transformer) if options.only is None or m.__name__ in options.only.split(",")]
    head = HEAD.format(rounds=options.rounds, steps=options.steps, quick=QUICK_NS / 1e6, burst=BURST, period=PERIOD)
    print(head, end="")
    rows = []
    for make in chosen:
        rows.append(row(make, rounds=options.rounds, steps=options.steps, seed=options.seed))
        print(rows[-1][0], flush=True)
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(head + "".join(f"{line}\n" for line, _ in rows))
    raise SystemExit(1 if any(met == "NO" for _, met in rows) else 0)


if __name__ == "__main__":
    main()
