"""Let each loader worker have more batches, or fewer, ready ahead of time.

Helps:      where the time to make a batch varies, so that now and then the queue runs dry.
Costs:      workers times factor times the bytes of a batch, in shared memory. No depth makes slow workers quick.
Parity:     the same bits: the queue's length changes no batch.
Undo:       the loader's own setting.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention, free_memory, megabytes
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.samples import batch_bytes
from netdyno.targets.subject import Subject

DEFAULT = 2  # PyTorch's own
FEWEST, MOST = 1, 4  # a queue deeper than four hides no jitter that four does not, and holds memory
LEAST_WAIT = 0.02
JITTER = 0.05  # of a step: what is hoped for where nothing tells jitter from workers that are too slow
MEMORY_SHARE = 0.25  # of what is free; the rest belongs to the model


@dataclass(frozen=True, slots=True)
class PrefetchFactor:
    factor: int = 4

    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 5
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if feed.direct is not None or feed.workers == 0:
            return "only loader workers prefetch, and there are none"
        if not FEWEST <= self.factor <= MOST:
            return f"a factor of {self.factor} is outside {FEWEST} to {MOST}"
        try:
            needed = in_flight(feed.workers, self.factor, batch_bytes(feed))
        except Exception as error:
            return f"the first sample cannot be read: {type(error).__name__}: {error}"
        budget = MEMORY_SHARE * free_memory()
        if needed > budget:
            return f"batches under way would hold {megabytes(needed)}; the budget is {megabytes(budget)}"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        if timeline is None or profile is None:
            return None
        waits = timeline.share("data")
        if waits < LEAST_WAIT or _too_slow(timeline, profile, waits):
            return None
        return Prediction(
            low=0.0,
            high=min(waits, JITTER),
            why=f"a step waits for data {waits:.0%} of its time; a deeper queue hides jitter, not slowness",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        now = subject.feed.prefetch_factor or DEFAULT
        others = [PrefetchFactor(factor) for factor in range(MOST, FEWEST - 1, -1) if factor != now]
        return tuple(one for one in others if one.refuses(subject) is None)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield replace(subject, feed=replace(subject.feed, prefetch_factor=self.factor))

    def code(self) -> str:
        return f"loader = DataLoader(..., num_workers=..., prefetch_factor={self.factor})"


def in_flight(workers: int, factor: int, bytes_of_batch: int) -> int:
    """Bytes of the batches that are ready or being made at any time."""
    return workers * factor * bytes_of_batch


def _too_slow(timeline: StepTimeline, profile: LoaderProfile, waits: float) -> bool:
    """Whether the workers make batches slower than the step uses them: then a queue of any depth is empty."""
    count = profile.samples_per_batch
    if profile.workers == 0 or count is None:
        return False
    rest = (1 - waits) * timeline.step.own
    return profile.sample.own * count / profile.workers > rest


EXAMPLES = (PrefetchFactor(), PrefetchFactor(factor=1))
