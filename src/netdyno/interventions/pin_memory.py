"""Put batches into page-locked memory and copy them to the device while it works.

Helps:      a device other than the CPU, with batches of some size.
Costs:      page-locked memory, and a thread that copies into it. One half without the other gains nothing:
            a copy from pageable memory cannot run beside the host, whatever `non_blocking` says.
Parity:     the same bits.
Undo:       the loader's own setting and the program's own copy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject, to_device

LEAST_COPY = 0.01  # of a step; less is not worth a trial


@dataclass(frozen=True, slots=True)
class PinMemory:
    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "processes"
    stage: ClassVar[int] = 6
    effort: ClassVar[float] = 2.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if subject.device.type == "cpu":
            return "the model runs on the CPU: batches are copied to no device"
        if subject.feed.direct is not None:
            return "batches are cut from tensors in memory; there is no loader to pin them"
        # Pinned by the program already, the other half may still be missing: the trial will tell.
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        copies = timeline.share("copy")
        if copies < LEAST_COPY:
            return None
        return Prediction(
            low=0.3 * copies,
            high=0.9 * copies,
            why=f"the host is held up by copies to the device for {copies:.0%} of a step",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        # First in line: the program's own copy then finds the batch where it wants it, and does nothing.
        place = (to_device(subject.device, non_blocking=True), *subject.place)
        yield replace(subject, feed=replace(subject.feed, pin_memory=True), place=place)

    def code(self) -> str:
        return "loader = DataLoader(..., pin_memory=True)\nbatch = batch.to(device, non_blocking=True)"


EXAMPLES = (PinMemory(),)
