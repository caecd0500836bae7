"""The four baselines of a workload as it is declared: data, forward, gradient update, whole steps."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from statistics import fmean
from typing import Any, Literal, TypeVar

import msgspec
import torch

from netdyno.measure.resident import Level, PeakHeld, growth, held
from netdyno.measure.step import Stepper, one_batch, train_on, turning
from netdyno.measure.stopwatch import Clock, DeviceStopwatch, Stopwatch, between, thread_clock
from netdyno.measure.untouched import random_state
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Measurement, Split
from netdyno.records.record import Baseline
from netdyno.targets.feed import Feed
from netdyno.targets.subject import Batch, Subject, mapped
from netdyno.targets.workload import Workload

# How the budget is split: whole steps are what a user feels, so they get the most.
DATA, ZEROS, UPDATE, STEPS = 0.25, 0.10, 0.30, 0.35
BATCHES = 1000  # as ledger A-020 has it, budget permitting
REPEATS = 200
LEAST = 5  # below five samples a median says little
WARMUP = 2  # the first update makes optimizer state and chooses kernels, the second shows the steady state
LEVELS = 48  # memory is looked at this often at most: a look takes about a millisecond

T = TypeVar("T")


@dataclass
class DataRun:
    """The data pipeline alone: time between batches, and memory while it ran."""

    first_s: float = 0.0
    between: list[Split] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """Bytes that each batch leaves behind; 0.0 unless the growth is certain."""
        found = growth(self.levels)
        return found.per_batch if found.certain else 0.0


def baselines(
    workload: Workload,
    *,
    seed: int = 0,
    budget_s: float = 20.0,
    clock: Clock | None = None,
    listener: Listener = silent,
    environment: str = "",
) -> Baseline:
    """The four baselines, with the workload's own settings and no change applied.

    Samples are running plus blocked seconds of one batch or one step; `waiting_share` tells what a busy
    machine added. `backward` holds the loss too. Takes about `budget_s`, and more only for five samples of each.
    Global random state is left as it was.
    """
    clock = clock or thread_clock()
    with random_state():
        listener(Event("data pipeline", 0, 4))
        data = data_run(workload.fresh(seed).feed, clock=clock, budget_s=DATA * budget_s)
        listener(Event("forward", 1, 4))
        subject = workload.fresh(seed)
        batch = one_batch(subject)
        zeros = forwards(subject, zeroed(subject, batch), clock=clock, budget_s=ZEROS * budget_s)
        listener(Event("gradient update", 2, 4))
        update = updates(subject, batch, clock=clock, budget_s=UPDATE * budget_s)
        listener(Event("whole steps", 3, 4))
        steps = whole_steps(workload.fresh(seed), clock=clock, budget_s=STEPS * budget_s)
        listener(Event("baselines", 4, 4))
    measured = _Naming(environment)
    made = Baseline(
        data=measured("time between batches", data.between, items=workload.batch_size),
        forward=measured("forward", _phase(update, "forward")),
        forward_zeros=measured("forward of zeros", zeros),
        backward=measured("loss and backward", _phase(update, "loss", "backward")),
        optimizer=measured("optimizer", _phase(update, "optimizer")),
        step=measured("step", steps.times, warmup=steps.warmup, items=workload.batch_size),
        epoch_s=epoch_seconds(workload, steps.times, first_s=data.first_s),
        first_batch_s=data.first_s,
        peak_bytes=steps.peak_bytes,
        phases=steps.phases,
        memory_slope_bytes=steps.slope,
    )
    return msgspec.structs.replace(made, hash=dna(made))


def dna(baseline: Baseline) -> str:
    """The hash of everything in a baseline but the hash itself."""
    text = msgspec.json.encode(msgspec.structs.replace(baseline, hash=""), order="sorted")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def data_run(feed: Feed, *, clock: Clock, budget_s: float, batches: int = BATCHES) -> DataRun:
    """Reads batches and does nothing with them, until the budget or `batches` are used up."""
    found = DataRun()
    source = feed.epochs()
    memory = _Levels(budget_s)
    try:
        began = clock()
        if next(source, None) is None:
            return found
        now = clock()
        found.first_s = between(began, now).own
        while len(found.between) < LEAST or (len(found.between) < batches and _wall(began, now) < budget_s):
            before = clock()
            next(source)
            now = clock()
            found.between.append(between(before, now))
            memory.look(len(found.between), _wall(began, now))
    finally:
        source.close()  # type: ignore[attr-defined]
    found.levels = memory.levels
    return found


def forwards(subject: Subject, batch: Batch, *, clock: Clock, budget_s: float) -> list[Split]:
    """The forward pass alone, again and again, with gradients recorded as in training."""

    def once() -> Split:
        with contextlib.ExitStack() as contexts:
            for context in subject.around_forward:
                contexts.enter_context(context())
            before = clock()
            output = subject.forward(subject.callee, batch)  # type: ignore[arg-type]
            _settle(subject.device)
            after = clock()
        del output  # freeing the graph is the backward pass's time, not the forward's
        return between(before, after)

    with turning(subject):
        return list(_repeated(once, clock=clock, budget_s=budget_s))


def updates(subject: Subject, batch: Batch, *, clock: Clock, budget_s: float) -> list[dict[str, Split]]:
    """Updates on one batch that is already there: the split of each into its phases."""
    watch = _watch(subject.device, clock)

    def once() -> dict[str, Split]:
        watch.clear()
        watch.start("forward")
        train_on(subject, batch, watch)
        watch.stop()
        return _settled_phases(watch)

    with turning(subject):
        return list(_repeated(once, clock=clock, budget_s=budget_s))


@dataclass
class Steps:
    """Whole training steps, end to end."""

    times: list[Split]
    warmup: list[Split]
    phases: dict[str, Split]
    peak_bytes: int
    slope: float


def whole_steps(subject: Subject, *, clock: Clock, budget_s: float) -> Steps:
    """Steps from the loader to the log, one at a time, and the memory that they need."""
    on_device = subject.device.type == "cuda"
    if on_device:
        torch.cuda.reset_peak_memory_stats(subject.device)
    peak = PeakHeld()
    memory = _Levels(budget_s)
    times: list[Split] = []
    phases: dict[str, Split] = {}
    stepper = Stepper(subject, _watch(subject.device, clock))
    try:
        warmup = [stepper.take(1).time for _ in range(WARMUP)]
        began = clock()
        for turn in _repeated(lambda: stepper.take(1), clock=clock, budget_s=budget_s, warmup=0):
            times.append(turn.time)
            for name, split in turn.phases.items():
                phases[name] = phases.get(name, Split()) + split
            memory.look(len(times), _wall(began, clock()))
        # While the workers are still there: they are part of what a run needs.
        most = torch.cuda.max_memory_allocated(subject.device) if on_device else peak()
    finally:
        stepper.close()
    found = growth(memory.levels)
    return Steps(
        times=times,
        warmup=warmup,
        phases={name: split.per(len(times)) for name, split in phases.items()},
        peak_bytes=most,
        slope=found.per_batch if found.certain else 0.0,
    )


def epoch_seconds(workload: Workload, times: list[Split], *, first_s: float) -> float:
    """One epoch: measured when the steps covered one, else the mean step times the steps of an epoch.

    Where workers are started anew for each epoch, the wait for the first batch comes on top of an estimate.
    Data without a length have no epochs; there, it is the declared number of updates over the declared epochs.
    """
    train, _ = workload.datasets()
    feed = workload.feed(train)
    count = feed.steps_per_epoch or max(1, workload.updates // workload.epochs)
    seconds = [split.own for split in times]
    if len(seconds) >= count:
        return sum(seconds[:count])
    starting = first_s if feed.workers and not feed.persistent_workers else 0.0
    return fmean(seconds) * count + starting


def zeroed(subject: Subject, batch: Batch) -> Batch:
    """The batch with zeros in all tensors; where the model refuses that, only in floating-point ones."""
    nothing = mapped(batch, torch.zeros_like)
    try:
        with random_state(), turning(subject), torch.no_grad():
            subject.forward(subject.callee, nothing)  # type: ignore[arg-type]
    except Exception:  # lengths and masks may not be zero; the real baseline follows anyway
        return mapped(batch, lambda tensor: torch.zeros_like(tensor) if tensor.is_floating_point() else tensor)
    return nothing


class _Levels:
    """Looks at memory now and then, evenly over a budget."""

    def __init__(self, budget_s: float) -> None:
        self.every = budget_s / LEVELS
        self.levels: list[Level] = []
        self._next = 0.0

    def look(self, batches: int, elapsed_s: float) -> None:
        if elapsed_s >= self._next:
            self.levels.append(Level(batches, held()))
            self._next = elapsed_s + self.every


@dataclass(frozen=True)
class _Naming:
    environment: str

    def __call__(
        self, quantity: str, splits: list[Split], *, warmup: list[Split] | None = None, items: int = 1
    ) -> Measurement:
        whole = reduce(add, splits, Split())
        better: Literal["lower"] = "lower"
        return Measurement(
            quantity=quantity,
            unit="s",
            better=better,
            samples=tuple(split.own for split in splits),
            warmup=tuple(split.own for split in warmup or ()),
            items_per_sample=items,
            environment=self.environment,
            waiting_share=whole.waiting / whole.wall if whole.wall else 0.0,
        )


def _phase(runs: list[dict[str, Split]], *names: str) -> list[Split]:
    return [reduce(add, (phases.get(name, Split()) for name in names), Split()) for phases in runs]


def _repeated(once: Callable[[], T], *, clock: Clock, budget_s: float, warmup: int = WARMUP) -> Iterator[T]:
    for _ in range(warmup):
        once()
    began = clock()
    for count in range(REPEATS):
        if count >= LEAST and _wall(began, clock()) >= budget_s:
            return
        yield once()


def _watch(device: torch.device, clock: Clock) -> Stopwatch:
    return DeviceStopwatch(device, clock) if device.type == "cuda" else Stopwatch(clock)


def _settled_phases(watch: Stopwatch) -> dict[str, Split]:
    """Phases by the clock of the device, where there is one: there the host only queues work."""
    if isinstance(watch, DeviceStopwatch):
        return {name: Split(running=seconds) for name, seconds in watch.device_phases().items()}
    return watch.phases()


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _wall(before: Any, after: Any) -> float:
    return (after.wall - before.wall) / 1e9
