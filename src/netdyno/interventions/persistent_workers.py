"""Keep the loader's workers alive from one epoch to the next.

Helps:      short epochs: starting workers costs tens of milliseconds each, and more where imports are heavy.
Costs:      the workers' memory stays taken between epochs; what leaks in them keeps growing.
Parity:     the same samples in the same batches; a random transform goes on drawing instead of being seeded anew.
Undo:       the loader's own setting; workers end with the loader.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

LEAST_SHARE = 0.005  # of an epoch; below, no trial can see it
START_S = (0.02, 0.2)  # of one epoch's workers, where it was not measured: forked on a quiet machine, on a busy one


@dataclass(frozen=True, slots=True)
class PersistentWorkers:
    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "other-randomness"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 5
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if subject.feed.direct is not None or subject.feed.workers == 0:
            return "there are no loader workers to keep"
        return "the workers stay already" if subject.feed.persistent_workers else None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        count = profile.samples_per_batch if profile is not None else None
        if timeline is None or profile is None or not count or not profile.samples:
            return None
        epoch = timeline.step.own * max(1.0, profile.samples / count)
        measured = profile.workers > 0
        # The first batch still has to be made: only a part of the wait for it is the start of workers.
        low, high = (0.5 * profile.epoch_start_s, 0.95 * profile.epoch_start_s) if measured else START_S
        if high / (epoch + high) < LEAST_SHARE:
            return None
        source = "measured" if measured else "a usual start, not measured here"
        return Prediction(
            low=low / (epoch + low),
            high=high / (epoch + high),
            why=f"an epoch takes {epoch:.2f} s and begins with up to {high:.2f} s of starting workers ({source})",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield replace(subject, feed=replace(subject.feed, persistent_workers=True))

    def code(self) -> str:
        return "loader = DataLoader(..., num_workers=..., persistent_workers=True)"


EXAMPLES = (PersistentWorkers(),)
