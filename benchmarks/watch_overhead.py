"""What watching costs a training run: on against off, in one process, in balanced order within rounds of turns.

    taskset -c 1 python benchmarks/watch_overhead.py --write docs/results/watch-overhead.md

Aimed at: by default at most 1 % of an update of the CNN and the transformer and at most 60 µs of an update of a two-layer MLP;
with everything on at most 5 %; resident memory at most 1 % and 20 MB more. Times are the process's on its core (the training thread, and the pulse beside it), which neighbours on the
machine don't change; what the journal's and the pulse's threads hold up by the interpreter's lock stands in the wall times.
"""

import argparse
import contextlib
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import script_overhead
from benchmarks.script_overhead import WARM, Loop, Price, price

import netdyno
from netdyno.aboard.observe import BURST
from netdyno.stats.paired import hodges_lehmann, log_ratios

# The pulse beats once a second: in half of the turns, and so for its share of the time.
TURN_S = 0.5
MOST, MOST_EVERYTHING, MOST_S, MOST_MB = 0.01, 0.05, 60e-6, 20.0


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


class Rider:
    """Something that can be on or off. `on` gives back what one update is then."""

    name = "off"

    def on(self, loop: Loop) -> Callable[[], None]:
        return loop.update

    def off(self) -> None:
        """As it was."""


class Watched(Rider):
    """A watch that goes on from turn to turn: its first updates are behind it, as they are in a run of hours.

    This is the time between bursts; `InBursts` is the other half, in which all looks are, and all that is listened to.
    """

    def __init__(self, store: str, *, everything: bool) -> None:
        self.name = "watch, everything" if everything else "watch"
        self.watch = netdyno.watch(store=store, everything=everything, quiet=True)
        self.seen = None
        self.left = 0.0
        self.held = False

    def on(self, loop: Loop) -> Callable[[], None]:
        if not self.watch.running:
            self._begin(loop)
        else:
            self.watch.observer.apply()
        self.held = False
        self.watch.observer._rest(sys.maxsize)
        return loop.update

    def _begin(self, loop: Loop) -> None:
        watch = self.watch
        watch.start()
        observer, self.seen = watch.observer, watch.observer.vitals
        while not (observer.faded and observer.resting):
            loop.update()
        watch._pulse.examine()  # the rules are imported by the first examination
        observer.watch_of = lambda _: self.seen
        beat = watch._pulse.beat
        watch._pulse.beat = lambda: None if self.held else beat()

    def off(self) -> None:
        watch, self.held = self.watch, True
        watch.observer.remove()
        watch.observer.account.stop()
        watch.observer.training_thread = None
        self.left = time.perf_counter_ns()

    def end(self) -> dict:
        self.held = False
        self.watch.stop()
        return self.watch.costs()


class InBursts(Rider):
    """The updates of a watch that are watched in a row: dearer ones, and so seldom that few turns would meet them."""

    def __init__(self, rests: Watched) -> None:
        self.rests = rests
        self.name = f"{rests.name}, in bursts"
        self.left = 0.0

    def on(self, loop: Loop) -> Callable[[], None]:
        if not self.rests.watch.running:
            self.rests._begin(loop)
            self.rests.off()
        observer, seen = self.rests.watch.observer, self.rests.seen
        observer.resting = observer.deaf = False
        observer._burst_begins()
        self.apart = observer.apart
        observer.apart = lambda at: min(1, self.apart(at))  # one after the other
        # What looks and listening may take of a whole run they take in its bursts.
        self.kept = seen.share, seen.listens, seen.listens_early
        seen.share, seen.listens, seen.listens_early = (min(0.5, one / self.share) for one in self.kept)
        seen.rested = True
        if self.left:
            seen.began += time.perf_counter_ns() - self.left
        else:
            seen.began, seen.away_ns, seen.spent_ns, seen.heard_ns = time.perf_counter_ns(), 0, 0, 0
        seen.waited = seen._waited()
        observer.apply()
        self.rests.held = False
        return loop.update

    def off(self) -> None:
        seen = self.rests.seen
        seen.share, seen.listens, seen.listens_early = self.kept
        del self.rests.watch.observer.apart
        self.rests.off()
        self.left = self.rests.left

    @property
    def share(self) -> float:
        """Of all updates, those in bursts, when a run has come to its pace."""
        return BURST / (BURST + self.rests.watch.observer.apart(sys.maxsize))


def mixed(rests: list["Turn"], bursts: list["Turn"], share: float) -> list["Turn"]:
    """What a run pays that is watched in bursts, which are so large a share of its updates."""
    return [
        Turn(*(share * dear + (1 - share) * cheap for dear, cheap in zip(burst, rest, strict=True)))
        for burst, rest in zip(bursts, rests, strict=True)
    ]


class Hooks(Rider):
    """What many write themselves: the norm of each gradient, read by `.item()`, at each step."""

    name = "hooks with .item()"

    def __init__(self) -> None:
        self.handles: list = []
        self.norms: dict[int, float] = {}

    def on(self, loop: Loop) -> Callable[[], None]:
        model = model_of(loop)
        for key, parameter in enumerate(model.parameters()):
            self.handles.append(
                parameter.register_hook(lambda g, key=key: self.norms.__setitem__(key, g.norm().item()))
            )
        for module in model.modules():
            self.handles.append(
                module.register_forward_hook(lambda m, _, out: self.norms.__setitem__(id(m), _mean(out)))
            )
        return loop.update

    def off(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


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

    def off(self) -> None:
        torch.autograd.set_detect_anomaly(False)


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

    def off(self) -> None:
        self.profiler.stop()


class Lightning(Rider):
    """Lightning's simple profiler around the parts of a step, as its Trainer calls it."""

    name = "Lightning's simple profiler"

    def __init__(self) -> None:
        from lightning.pytorch.profilers import SimpleProfiler

        self.profiler = SimpleProfiler()

    def on(self, loop: Loop) -> Callable[[], None]:
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
                    stack.enter_context(self.profiler.profile(action))
                loop.update()

        return update


class TraceML(Rider):
    """TraceML's `trace_step` around each step. Its patches stay once they are there, also in the turns without: its price is a lower bound."""

    name = "TraceML's trace_step"

    def __init__(self) -> None:
        import traceml_ai

        self.server = subprocess.Popen(
            [str(Path(sys.executable).parent / "traceml"), "serve"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.tracer = traceml_ai
        self.tracer.init(mode="auto", on_missing_aggregator="raise")

    def on(self, loop: Loop) -> Callable[[], None]:
        model = model_of(loop)

        def update() -> None:
            with self.tracer.trace_step(model):
                loop.update()

        return update

    def end(self) -> None:
        self.server.terminate()


class Turn(NamedTuple):
    """Seconds of one update: the process's on a core, by the clock on the wall, and the training thread's in the middle one."""

    running: float
    wall: float
    middle: float


def turn(update: Callable[[], None], least_s: float) -> Turn:
    """Updates for at least so long."""
    began, running = time.perf_counter(), time.process_time()
    each: list[int] = []
    while time.perf_counter() - began < least_s:
        for _ in range(8):
            before = time.thread_time_ns()
            update()
            each.append(time.thread_time_ns() - before)
    done = len(each)
    return Turn((time.process_time() - running) / done, (time.perf_counter() - began) / done, median(each) / 1e9)


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


def rounds_of(loop: Loop, riders: list[Rider], *, rounds: int, seed: int, least_s: float) -> dict[str, list[Turn]]:
    """One turn of each rider in each round, in balanced order."""
    found: dict[str, list[Turn]] = {rider.name: [] for rider in riders}
    for order, _ in zip(orders(len(riders), random.Random(seed)), range(rounds), strict=False):
        for rider in (riders[at] for at in order):
            update = rider.on(loop)
            for _ in range(WARM):
                update()
            found[rider.name].append(turn(update, least_s))
            rider.off()
    return found


def between(one: Sequence[Turn], other: Sequence[Turn]) -> list[Turn]:
    """The middle of two turns of each round."""
    return [Turn(*(fmean(pair) for pair in zip(*turns, strict=True))) for turns in zip(one, other, strict=True)]


def again() -> Rider:
    """Nothing, once more: what the machine alone makes of a difference."""
    rider = Rider()
    rider.name = "off again (A/A)"
    return rider


def rivals() -> list[Rider]:
    """Those that are installed."""
    found: list[Rider] = [Hooks(), Anomaly(), Profiled()]
    with contextlib.suppress(ImportError):
        found.append(Lightning())
    return found


def rows(name: str, kinds: list[str], *, rounds: int, seed: int, least_s: float, beside: bool) -> list[str]:
    """The lines of one loop."""
    torch.manual_seed(seed)
    loop = LOOPS[name]()
    for _ in range(WARM):
        loop.update()
    with tempfile.TemporaryDirectory() as store:
        # One process has one watch at a time: everything comes after, beside turns of its own without.
        watches = [Watched(store, everything=kind == "everything") for kind in kinds]
        others, lines = rivals() if beside else [], []
        for at, watched in enumerate(watches):
            bursts, twice = InBursts(watched), again()
            riders = [Rider(), twice, watched, bursts, *others]
            found = rounds_of(loop, riders, rounds=rounds, seed=seed + at, least_s=least_s)
            share = bursts.share
            watched.end()
            off, dear = found.pop("off"), found.pop(bursts.name)
            lines.append(line(loop.name, twice.name, found[twice.name], off))
            # Two turns without in each round: their mean is the better yardstick.
            off = between(off, found.pop(twice.name))
            found[watched.name] = mixed(found[watched.name], dear, share)
            found[f"{bursts.name} ({share:.1%} of updates)"] = dear
            lines += [line(loop.name, kind, turns, off) for kind, turns in found.items()]
            others = []
    return lines


def traced(name: str, tracer: TraceML, *, rounds: int, seed: int, least_s: float) -> str:
    """TraceML's line of one loop. It comes after all others: what it patches stays patched."""
    torch.manual_seed(seed)
    loop = LOOPS[name]()
    for _ in range(WARM):
        loop.update()
    found = rounds_of(loop, [Rider(), tracer], rounds=rounds, seed=seed + 2, least_s=least_s)
    return line(loop.name, tracer.name, found[tracer.name], found["off"])


def line(loop: str, kind: str, on: list[Turn], off: list[Turn]) -> str:
    """One rider on one loop."""
    more = price([one.running for one in on], [one.running for one in off])
    share, wall, middle = (shares(on, off, of) for of in ("running", "wall", "middle"))
    step = median(one.running for one in off)
    return (
        f"| {loop} | {step * 1e3:.2f} | {kind} | {more} | {told(share)} | {told(middle)} | {told(wall)} | "
        f"{met(loop, kind, more, share)} |"
    )


def shares(on: list[Turn], off: list[Turn], of: str):
    """How much more, as a share."""
    return hodges_lehmann(log_ratios([getattr(one, of) for one in on], [getattr(one, of) for one in off]), 0.95)


def told(share) -> str:
    return f"{share.middle:+.2%} ({share.low:+.2%} to {share.high:+.2%})"


def met(loop: str, kind: str, more: Price, share) -> str:
    """Whether the whole interval keeps to what is aimed at."""
    if not kind.startswith("watch") or "bursts" in kind:
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
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--least-s", type=float, default=TURN_S, help="seconds of a turn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(LOOPS))
    parser.add_argument("--kinds", default="watch,everything")
    parser.add_argument("--alone", action="store_true", help="without the rivals")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    said = [HEAD.format(rounds=options.rounds, load=os.getloadavg()[0], device=device())]
    print(said[0], end="", flush=True)
    for name in options.only.split(","):
        found = rows(
            name, options.kinds.split(","), rounds=options.rounds, seed=options.seed, least_s=options.least_s,
            beside=not options.alone,
        )  # fmt: skip
        said += [f"{each}\n" for each in found]
        print("\n".join(found), flush=True)
    if not options.alone and importlib.util.find_spec("traceml_ai") is not None:
        tracer = TraceML()
        for name in options.only.split(","):
            found = [traced(name, tracer, rounds=options.rounds, seed=options.seed, least_s=options.least_s)]
            said.append(f"{found[0]}\n")
            print(found[0], flush=True)
        tracer.end()
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

`python benchmarks/watch_overhead.py --rounds {rounds}` on {device}, load average {load:.1f} at the beginning. In one process, turns of
at least half a second with the watch on and off (and off once more, A/A), in balanced order within each round (Williams); a watch goes on from
turn to turn. Times are the process's on its core, all threads; Hodges–Lehmann estimates with their 95 % intervals. The middle update is
the training thread's median in each turn, which other programs blur less and rare looks don't reach. A watch comes in two parts,
measured apart and put together by their shares of updates: asleep, and in bursts, where all looks are. Beside it
what others do at each step: a hook per parameter and module that reads by `.item()`, anomaly mode, torch.profiler in three of ten
steps, Lightning's simple profiler around the parts of a step, TraceML's `trace_step` (its patches stay in the turns without, so
that its price is a lower bound). Cockpit, which is not run here: 5.7 to 63 times the step on a CPU
when it looks at every step (its authors' figures). Aimed at: `watch` ≤ 1 % on the CNN and the transformer, ≤ 60 µs on the MLP;
`watch, everything` ≤ 5 %.

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
