"""What watching costs a training run: processes with and without it, taking turns of some updates on one core.

    taskset -c 1 python benchmarks/watch_overhead.py --write docs/results/watch-overhead.md --keep watch.jsonl

A heat is a fresh process that makes a loop and forks: one child trains as it is, one more does the same (A/A), one is watched, and so
on. A slice of updates of each, in balanced order, some hundred times: what neighbours on the machine do meets all alike, and each
has its own interpreter, which a patch that comes and goes would otherwise teach anew. What the layout of memory makes of a process differs from heat to
heat, and the intervals are over heats. Times are the process's on its core, all threads and all slices, so that bursts and looks are in them as often
as they are in a run. `--keep` keeps heats as they come: the same command goes on where it stopped.

Aimed at: by default at most 1 % of an update of the CNN and the transformer and at most 60 µs of an update of a two-layer MLP;
with everything on at most 5 %; resident memory at most 1 % and 20 MB more.
"""

import argparse
import contextlib
import importlib.util
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import script_overhead
from benchmarks.script_overhead import WARM, Loop, Price, price

import netdyno
from netdyno.stats.paired import hodges_lehmann, log_ratios

SLICE_S = 0.06
MOST, MOST_EVERYTHING, MOST_S, MOST_MB = 0.01, 0.05, 60e-6, 20.0
# With glibc's own thresholds the heap is given back and asked for again in each update of the CNN, or not, as its layout will have it: 2,200 page
# faults and 12 ms, or none and 7 ms, and the same process goes from one to the other. That lottery would hide any price.
HEAP = {"MALLOC_TRIM_THRESHOLD_": str(2**31 - 1), "MALLOC_MMAP_THRESHOLD_": str(2**30)}


def tiny() -> Loop:
    """A two-layer MLP: whatever watching costs shows."""
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    x, y = torch.randn(32, 64), torch.randint(0, 8, (32,))
    return script_overhead._loop("two-layer MLP, SGD", net, x, y, torch.optim.SGD)


LOOPS: dict[str, Callable[[], Loop]] = {
    "tiny": tiny,
    "cnn": script_overhead.cnn,
    "transformer": script_overhead.transformer,
}


STAYS: list[torch.Tensor] = []


class Rider:
    """Something that can ride along in a process of its own. `on` gives back what one update is then."""

    name = "off"

    def on(self, loop: Loop) -> Callable[[], None]:
        return loop.update

    def resume(self) -> None:
        """Its slice begins."""

    def pause(self) -> None:
        """Its slice is over: others have the core."""

    def end(self) -> None:
        """The heat is over."""


class Watched(Rider):
    """A watch that has come to its pace, as it has in a run of hours. While others have the core its clocks stand."""

    def __init__(self, *, everything: bool) -> None:
        self.name = "watch, everything" if everything else "watch"
        self.everything = everything
        self.away_s = self.left_s = 0.0
        self.held = False

    def on(self, loop: Loop) -> Callable[[], None]:
        self.store = tempfile.TemporaryDirectory()
        watch = self.watch = netdyno.watch(store=self.store.name, everything=self.everything, quiet=True)
        watch.start()
        while not (watch.observer.faded and watch.observer.resting):
            loop.update()
        pulse = watch._pulse
        pulse.examine()  # the rules are imported by the first examination
        beat, due = pulse.beat, pulse.due
        pulse.clock = lambda: time.monotonic() - self.away_s
        pulse.beat = lambda: None if self.held else beat()
        pulse.due = lambda: not self.held and due()
        self.pause()
        return loop.update

    def resume(self) -> None:
        away_s = time.monotonic() - self.left_s
        self.away_s += away_s
        self.watch.observer.vitals.began += int(away_s * 1e9)
        self.held = False

    def pause(self) -> None:
        self.held, self.left_s = True, time.monotonic()

    def end(self) -> None:
        self.held = False
        self.watch.stop()
        self.store.cleanup()


class Hooks(Rider):
    """What many write themselves: the norm of each gradient, read by `.item()`, at each step."""

    name = "hooks with .item()"

    def __init__(self) -> None:
        self.norms: dict[int, float] = {}

    def on(self, loop: Loop) -> Callable[[], None]:
        model = model_of(loop)
        for key, parameter in enumerate(model.parameters()):
            parameter.register_hook(lambda g, key=key: self.norms.__setitem__(key, g.norm().item()))
        for module in model.modules():
            module.register_forward_hook(lambda m, _, out: self.norms.__setitem__(id(m), _mean(out)))
        return loop.update


def _mean(out) -> float:
    return out.mean().item() if isinstance(out, torch.Tensor) else 0.0


def model_of(loop: Loop):
    """The module that the loop's update trains."""
    return next(
        cell.cell_contents for cell in loop.update.__closure__ if isinstance(cell.cell_contents, torch.nn.Module)
    )


class Anomaly(Rider):
    name = "set_detect_anomaly"

    def on(self, loop: Loop) -> Callable[[], None]:
        torch.autograd.set_detect_anomaly(True)
        return loop.update


class Profiled(Rider):
    """torch.profiler as its tutorial schedules it: three of ten steps."""

    name = "torch.profiler, 3 steps of 10"

    def on(self, loop: Loop) -> Callable[[], None]:
        schedule = torch.profiler.schedule(wait=5, warmup=2, active=3)
        self.profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=lambda _: None)
        self.profiler.start()

        def update() -> None:
            loop.update()
            self.profiler.step()

        return update

    def end(self) -> None:
        self.profiler.stop()


class Lightning(Rider):
    """Lightning's simple profiler around the parts of a step, as its Trainer calls it."""

    name = "Lightning's simple profiler"

    def on(self, loop: Loop) -> Callable[[], None]:
        from lightning.pytorch.profilers import SimpleProfiler

        profiler = SimpleProfiler()
        actions = (
            "train_dataloader_next",
            "run_training_batch",
            "optimizer_step",
            "optimizer_zero_grad",
            "training_step",
            "backward",
        )

        def update() -> None:
            with contextlib.ExitStack() as stack:
                for action in actions:
                    stack.enter_context(profiler.profile(action))
                loop.update()

        return update


class TraceML(Rider):
    """TraceML's `trace_step` around each step, beside its own server."""

    name = "TraceML's trace_step"

    def on(self, loop: Loop) -> Callable[[], None]:
        import traceml_ai

        self.server = subprocess.Popen(
            [str(Path(sys.executable).parent / "traceml"), "serve"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        traceml_ai.init(mode="auto", on_missing_aggregator="raise")
        model = model_of(loop)

        def update() -> None:
            with traceml_ai.trace_step(model):
                loop.update()

        return update

    def end(self) -> None:
        self.server.terminate()


RIDERS: dict[str, Callable[[], Rider]] = {
    "watch": lambda: Watched(everything=False),
    "everything": lambda: Watched(everything=True),
    "hooks": Hooks,
    "anomaly": Anomaly,
    "profiler": Profiled,
    "lightning": Lightning,
    "traceml": TraceML,
}
NEEDS = {"lightning": "lightning", "traceml": "traceml_ai"}


class Side(NamedTuple):
    """Seconds of one update of a heat: the process's on a core, by the clock on the wall, and the training thread's in the middle one."""

    running: float
    wall: float
    middle: float


def orders(count: int, chance: random.Random) -> Iterator[list[int]]:
    """Without end, orders in which each comes behind each other equally often (Williams 1949): what one leaves in the caches meets all alike.

    >>> first = [order for order, _ in zip(orders(4, random.Random(0)), range(4))]
    >>> len({pair for order in first for pair in zip(order, order[1:])})
    12
    """
    zigzag = [at // 2 if at % 2 == 0 else count - 1 - at // 2 for at in range(count)]
    square = [[(one + shift) % count for one in zigzag] for shift in range(count)]
    if count % 2:
        square += [order[::-1] for order in square]
    while True:
        names = chance.sample(range(count), count)
        for order in chance.sample(square, len(square)):
            yield [names[one] for one in order]


def again() -> Rider:
    """Nothing, once more: what the machine alone makes of a difference."""
    rider = Rider()
    rider.name = "off again (A/A)"
    return rider


def ride(pipe: Connection, rider: Rider, loop: Loop) -> None:
    """A child: so many updates as it is told, again and again, until it is told none.

    It has a second thread, as each process has that shows a progress bar, pins memory or lets torch compute on two cores: from the first one on
    glibc locks its heap, for good, which costs the transformer 0.3 to 0.9 % whoever begins the thread.
    """
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    update = rider.on(loop)
    for _ in range(WARM):
        update()
    each: list[int] = []
    wall = 0.0
    pipe.send("ready")
    running = 0.0
    while count := pipe.recv():
        rider.resume()
        running = running or time.process_time()
        began = time.perf_counter()
        for _ in range(count):
            before = time.thread_time_ns()
            update()
            each.append(time.thread_time_ns() - before)
        wall += time.perf_counter() - began
        rider.pause()
        pipe.send("done")
    done = len(each)
    pipe.send(Side((time.process_time() - running) / done, wall / done, median(each) / 1e9))
    rider.end()


def live_in(seed: int) -> None:
    """Leave the heap as a run leaves it that evaluates, logs and saves: what is allocated from here on lies scattered.

    A process that has done nothing but train has its tensors side by side, until anything else allocates: this alone, without a watch, costs
    the transformer 2 to 4 %. A watch would pay for being the first.
    """
    chance = random.Random(seed)
    for _ in range(3):
        many = [torch.empty(4 ** chance.randint(1, 7)) for _ in range(4000)]
        chance.shuffle(many)
        STAYS.extend(many[:400])


def heat(name: str, riders: Sequence[Rider], *, seed: int, slices: int, pristine: bool) -> dict[str, Side]:
    """One process's children, each of which makes so many slices."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    loop = LOOPS[name]()
    if not pristine:
        live_in(seed)
    for _ in range(WARM):
        loop.update()
    began = time.perf_counter()
    for _ in range(WARM):
        loop.update()
    count = max(4, round(SLICE_S * WARM / (time.perf_counter() - began)))
    forks = multiprocessing.get_context("fork")
    pipes: list[Connection] = []
    children = []
    try:
        for rider in riders:
            here, there = forks.Pipe()
            children.append(forks.Process(target=ride, args=(there, rider, loop)))
            children[-1].start()
            there.close()
            here.recv()
            pipes.append(here)
        for order, _ in zip(orders(len(riders), random.Random(seed)), range(slices), strict=False):
            for at in order:
                pipes[at].send(count)
                pipes[at].recv()
        for pipe in pipes:
            pipe.send(0)
        return {rider.name: pipe.recv() for rider, pipe in zip(riders, pipes, strict=True)}
    finally:
        for child, pipe in zip(children, pipes, strict=False):
            pipe.close()
            child.join(timeout=30)
            if child.is_alive():
                child.kill()


def heats(
    name: str, kinds: list[str], *, number: int, slices: int, pristine: bool, keep: Path
) -> list[dict[str, Side]]:
    """So many heats of a loop: those that are kept, and those that are still missing, each in a process of its own."""
    found: list[dict[str, Side]] = []
    for line in keep.read_text().splitlines() if keep.exists() else []:
        one = json.loads(line)
        if one["of"] == [name, kinds, slices, pristine]:
            found.append({kind: Side(*side) for kind, side in one["sides"].items()})
    for seed in range(len(found), number):
        command = [sys.executable, __file__, "--heat", name, "--kinds", ",".join(kinds), "--slices", str(slices)]
        command += ["--pristine"] if pristine else []
        child = subprocess.run(
            [*command, "--seed", str(seed)], check=True, stdout=subprocess.PIPE, text=True, env=os.environ | HEAP
        )
        sides = json.loads(child.stdout.splitlines()[-1])
        with keep.open("a") as kept:
            kept.write(json.dumps({"of": [name, kinds, slices, pristine], "sides": sides}) + "\n")
        found.append({kind: Side(*side) for kind, side in sides.items()})
        print(f"{name}: heat {seed + 1} of {number}", file=sys.stderr, flush=True)
    return found


def between(one: Side, other: Side) -> Side:
    """The middle of the two that ride without anything."""
    return Side(*(fmean(pair) for pair in zip(one, other, strict=True)))


def rows(name: str, found: list[dict[str, Side]]) -> list[str]:
    """The lines of one loop."""
    loop = LOOPS[name]().name
    plain, twice = ([one[kind] for one in found] for kind in (Rider.name, again().name))
    off = [between(*pair) for pair in zip(plain, twice, strict=True)]
    others = [kind for kind in found[0] if kind not in (Rider.name, again().name)]
    return [
        line(loop, again().name, twice, plain),
        *(line(loop, kind, [one[kind] for one in found], off) for kind in others),
    ]


def line(loop: str, kind: str, on: list[Side], off: list[Side]) -> str:
    """One rider on one loop."""
    more = price([one.running for one in on], [one.running for one in off])
    share, wall, middle = (shares(on, off, of) for of in ("running", "wall", "middle"))
    step = median(one.running for one in off)
    return (
        f"| {loop} | {step * 1e3:.2f} | {kind} | {more} | {told(share)} | {told(middle)} | {told(wall)} | "
        f"{met(loop, kind, more, share)} |"
    )


def shares(on: list[Side], off: list[Side], of: str):
    """How much more, as a share."""
    return hodges_lehmann(log_ratios([getattr(one, of) for one in on], [getattr(one, of) for one in off]), 0.95)


def told(share) -> str:
    return f"{share.middle:+.2%} ({share.low:+.2%} to {share.high:+.2%})"


def met(loop: str, kind: str, more: Price, share) -> str:
    """Whether the whole interval keeps to what is aimed at."""
    if not kind.startswith("watch"):
        return ""
    everything = "everything" in kind
    if "two-layer" in loop and not everything:
        low, high, most = more.low, more.high, MOST_S
    else:
        low, high, most = share.low, share.high, MOST_EVERYTHING if everything else MOST
    return "yes" if high <= most else "NO" if low > most else "not decided"


CHILD = """
import sys, resource, tempfile
sys.path[:0] = [{root!r}]
import torch, netdyno
from benchmarks import watch_overhead
torch.set_num_threads(1); torch.manual_seed(0)
loop = watch_overhead.LOOPS[{loop!r}]()
kind = {kind!r}
with tempfile.TemporaryDirectory() as store:
    watch = netdyno.watch(store=store, everything=kind == "everything", quiet=True) if kind != "off" else None
    if watch: watch.start()
    for _ in range({updates}): loop.update()
    if watch: watch.stop()
import netdyno.monitor.run, netdyno.monitor.tripwires, netdyno.rules._base
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def memory(loop: str, *, updates: int, times: int) -> list[str]:
    """The most resident megabytes of fresh processes, in turns."""
    root = str(Path(__file__).resolve().parent.parent)
    peaks: dict[str, list[float]] = {"off": [], "watch": [], "everything": []}
    for _ in range(times):
        for kind, found in peaks.items():
            code = CHILD.format(root=root, loop=loop, kind=kind, updates=updates)
            found.append(
                float(
                    subprocess.run(
                        [sys.executable, "-c", code], check=True, capture_output=True, text=True
                    ).stdout.split()[-1]
                )
            )
    bare = median(peaks["off"])
    return [
        f"| {loop} | {bare:.0f} | {kind} | {median(found) - bare:+.1f} | {bare * 0.01 + MOST_MB:.1f} | "
        f"{'yes' if median(found) - bare <= bare * 0.01 + MOST_MB else 'NO'} |"
        for kind, found in peaks.items()
        if kind != "off"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heats", type=int, default=16)
    parser.add_argument("--slices", type=int, default=160, help="of each child in a heat")
    parser.add_argument("--only", default=",".join(LOOPS), help="loops")
    parser.add_argument("--kinds", default=",".join(RIDERS), help="what rides, besides nothing")
    parser.add_argument("--keep", type=Path, default=Path("watch-overhead.jsonl"), help="heats so far")
    parser.add_argument("--pristine", action="store_true", help="in processes whose heap nothing but training has used")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--heat", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = [
        kind for kind in options.kinds.split(",") if importlib.util.find_spec(NEEDS.get(kind, "torch")) is not None
    ]
    if options.heat:
        riders = [Rider(), again(), *(RIDERS[kind]() for kind in kinds)]
        print(
            json.dumps(heat(options.heat, riders, seed=options.seed, slices=options.slices, pristine=options.pristine))
        )
        return
    said = [HEAD.format(heats=options.heats, slices=options.slices, load=os.getloadavg()[0], device=device())]
    print(said[0], end="", flush=True)
    for name in options.only.split(","):
        found = rows(
            name,
            heats(
                name, kinds, number=options.heats, slices=options.slices, pristine=options.pristine, keep=options.keep
            ),
        )
        said += [f"{each}\n" for each in found]
        print("\n".join(found), flush=True)
    if not options.no_memory:
        said += [
            MEMORY,
            *(f"{each}\n" for name in options.only.split(",") for each in memory(name, updates=600, times=3)),
        ]
        print("".join(said[said.index(MEMORY) :]), end="")
    if options.write is not None:
        options.write.write_text("".join(said))


def device() -> str:
    """Where it ran."""
    return f"a CPU, one thread, torch {torch.__version__}"


HEAD = """# What watching costs

`taskset -c 1 python benchmarks/watch_overhead.py --heats {heats} --slices {slices}` on {device}, load average {load:.1f} at the beginning. A heat is a
fresh process whose children train the same loop, one as it is, one more as it is (A/A), one watched, and so on: slices of some 60 ms of each in balanced order (Williams), while the
others wait, so that what happens on the machine meets all alike. Times are the process's on its core, all threads and the whole heat, after a watch has come to its pace
(1,000 updates); Hodges–Lehmann estimates over the heats with their 95 % intervals; the two without are the yardstick together. The middle update is the training thread's median, which
bursts and looks don't reach. The heap keeps what is freed (`MALLOC_TRIM_THRESHOLD_`), without which the CNN takes 7 or 12 ms by chance. Beside the watch what others do at each step: a hook
per parameter and module that reads by `.item()`, anomaly mode, torch.profiler in three of ten steps, Lightning's simple profiler around
the parts of a step, TraceML's `trace_step`. Cockpit, which is not run here: 5.7 to 63 times the step on a CPU when it looks at every step (its
authors' figures). Aimed at: `watch` ≤ 1 % on the CNN and the transformer, ≤ 60 µs on the MLP; `watch, everything` ≤ 5 %.

| loop | update, ms | with | µs more, on a core | share more, on a core | the middle update | share more, wall | as aimed at |
|---|---|---|---|---|---|---|---|
"""
MEMORY = """
The most resident memory of a fresh process after 600 updates, medians of three in turns; allowed: 1 % and 20 MB.

| loop | without, MB | with | MB more | allowed | as aimed at |
|---|---|---|---|---|---|
"""

if __name__ == "__main__":
    main()
