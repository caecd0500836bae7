"""Make batches in worker processes of the loader, ahead of time.

Helps:      training that waits for samples: decoding, augmenting, reading files.
Costs:      a process per worker, and about a third of a millisecond per batch to hand it over; on a CPU the
            workers take cores from the model. Cheap samples get dearer.
Parity:     the same samples in the same batches; a random transform draws other numbers in a worker.
Undo:       the loader's own settings; workers end with the loader.
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention, megabytes
from netdyno.records.evidence import LoaderProfile, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.feed import Feed
from netdyno.targets.samples import batch_bytes
from netdyno.targets.subject import Subject

LEAST_WAIT = 0.02  # a fiftieth of a step: less than handing batches over costs
MOSTLY = 0.5  # of a sample's time; above it, more workers than cores still find something to wait for
MOST_WORKERS = 64  # beyond this, starting them takes seconds and their memory gigabytes
MOST_RACED = 4  # each setting raced costs several pairs of fresh processes
# Measured with one worker on the machine this was developed on: fixed part, and per byte through shared memory.
RECEIVING_S, RECEIVING_S_PER_BYTE = 3e-4, 2e-10
SENDING_S, SENDING_S_PER_BYTE = 8e-4, 1e-9


@dataclass(frozen=True, slots=True)
class LoaderWorkers:
    workers: int = 2

    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "other-randomness"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 4
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if feed.direct is not None:
            return "batches are cut from tensors in memory; there is no loader to give workers to"
        if feed.iterable:
            return "the data set is a stream: every worker would read all of it"
        return _too_narrow(feed, self.workers) if self.workers else None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        if timeline is None or profile is None or not timeline.step.own:
            return None
        waits = timeline.share("data", "collate")
        work = work_per_batch(timeline, profile)
        if work is None or (self.workers and waits < LEAST_WAIT):
            return None
        step, cores = timeline.step.own, usable_cores()
        threads = facts[ThreadUse].torch_threads if ThreadUse in facts else cores
        rest, size = (1 - waits) * step, profile.batch_bytes
        # At worst the step keeps all its threads busy all the time, at best one.
        low, high = (
            1 - overlapped(self.workers, work, rest=rest, cores=cores, threads=busy, bytes_of_batch=size) / step
            for busy in (min(threads, cores), 1)
        )
        if high <= 0:
            return None
        return Prediction(
            low=low,
            high=high,
            why=f"a step waits for data {waits:.0%} of its time; a batch is {work.running * 1e3:.1f} ms of work and "
            f"{work.blocked * 1e3:.1f} ms of waiting, shared by {self.workers} workers on {cores} cores",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        counts = candidates(usable_cores(), facts.get(LoaderProfile))
        # Workers can be the trouble, too.
        counts = [count for count in (*counts, 0) if count != subject.feed.workers]
        possible = [one for one in map(LoaderWorkers, counts) if one.refuses(subject) is None]
        # Among counts that promise the same to a fiftieth of a step, fewer is kinder to the machine.
        ranked = sorted(possible, key=lambda one: (-round(_hope(one, facts) * 50), one.workers or MOST_WORKERS))
        return tuple(ranked[:MOST_RACED])

    def for_scripts(self, facts: Facts) -> tuple[Intervention, ...]:
        """The settings for a script, which is known by its evidence alone: starting it is dear, so few are raced."""
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        now = profile.workers if profile is not None else 0
        others = [LoaderWorkers(count) for count in candidates(usable_cores(), profile) if count != now]
        return tuple(sorted(others, key=lambda one: (-round(_hope(one, facts) * 50), one.workers))[:1])

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        feed = replace(
            subject.feed,
            workers=self.workers,
            # How batches are queued and whether workers stay is the program's own choice, and another change.
            prefetch_factor=subject.feed.prefetch_factor if self.workers else None,
            persistent_workers=subject.feed.persistent_workers and self.workers > 0,
        )
        yield replace(subject, feed=feed)

    def code(self) -> str:
        return f"loader = DataLoader(..., num_workers={self.workers})"


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the share of time that a container grants."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no control group, or one without a limit ("max")
        return cores


def candidates(cores: int, profile: LoaderProfile | None) -> list[int]:
    """Worker counts worth a trial: up to the cores where samples are work, beyond them where they are waiting.

    >>> candidates(4, None)
    [1, 2, 4]
    """
    if profile is not None and profile.sample.own and profile.sample.blocked / profile.sample.own > MOSTLY:
        return sorted({min(cores * times, MOST_WORKERS) for times in (1, 2, 4, 8)})
    return sorted(
        {*(2**power for power in range(cores.bit_length()) if 2**power <= MOST_WORKERS), min(cores, MOST_WORKERS)}
    )


def work_per_batch(timeline: StepTimeline, profile: LoaderProfile) -> Split | None:
    """What making one batch takes in one process: seen in the step itself, or, behind workers, sample by sample."""
    if profile.workers == 0:
        phases = timeline.phases
        return phases.get("data", Split()) + phases.get("collate", Split())
    count = profile.samples_per_batch
    if count is None:
        return None
    return Split(running=profile.sample.running * count, blocked=profile.sample.blocked * count)


def overlapped(workers: int, work: Split, *, rest: float, cores: int, threads: int, bytes_of_batch: int) -> float:
    """Seconds per step when `workers` make batches beside a step whose own work is `rest` seconds on `threads`.

    Three things can be the slowest: the step, the workers, or the cores that both share.
    """
    if workers == 0:
        return work.own + rest
    receiving = RECEIVING_S + RECEIVING_S_PER_BYTE * bytes_of_batch
    sending = SENDING_S + SENDING_S_PER_BYTE * bytes_of_batch
    running = work.running + sending
    return max(
        rest + receiving,
        (running + work.blocked) / workers,
        running / cores,
        (running + threads * rest) / cores,
    )


def _hope(one: LoaderWorkers, facts: Facts) -> float:
    prediction = one.predicts(facts)
    return prediction.middle if prediction is not None else 0.0


def _too_narrow(feed: Feed, workers: int) -> str | None:
    """Batches travel through shared memory, which containers often keep small: then a worker dies of a bus error."""
    try:
        room = os.statvfs("/dev/shm")  # noqa: S108  where Linux keeps it
        needed = workers * (feed.prefetch_factor or 2) * batch_bytes(feed)
    except Exception:  # no such place, or a sample that cannot be read: the trial will say so in its own words
        return None
    free = room.f_bavail * room.f_frsize
    if needed <= free:
        return None
    return f"batches travel through shared memory, which has {megabytes(free)} free; {workers} workers need {megabytes(needed)}"


EXAMPLES = (LoaderWorkers(), LoaderWorkers(workers=1))
