"""Run the random transform once per batch, on tensors, where the model is, instead of once per sample.

Helps:      augmentation in Python: a call per batch takes the place of a call per sample, and a GPU does the work.
Costs:      the transform now takes time on the model's device; it must treat each row on its own.
Parity:     other random numbers from the same distribution, so only learning can be compared. Off in evaluation.
Undo:       samples pass through their own transform again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.samples import kept_randomness, same
from netdyno.targets.subject import Batch, Subject, tensors

LEAST_GAIN = 0.02  # of a step
COPIES = 16  # of one sample: a coin that is thrown for each falls alike on all once in 32,768 batches


@dataclass(frozen=True, slots=True)
class BatchTransforms:
    layers: ClassVar[tuple[str, ...]] = ("data", "compute")
    numerics: ClassVar[Numerics] = "other-randomness"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 1
    effort: ClassVar[float] = 20.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if feed.augment is None:
            return "no random transform runs per sample"
        if feed.batch_augment is None:
            return (
                "nothing says what the random transform is for a whole batch: declare it beside `augment=` as "
                "`batch_augment=`, a function from a collated batch to a batch"
            )
        if feed.iterable:
            return "the data set is a stream: no sample can be read ahead to compare the two transforms"
        try:
            with kept_randomness():
                return _unlike(subject) or _all_alike(subject)
        except Exception as error:
            return f"the transform for whole batches cannot take this one's place: {type(error).__name__}: {error}"

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        if timeline is None or profile is None or not profile.sample.own:
            return None
        share = timeline.share("data") * min(1.0, profile.augment.own / profile.sample.own)
        if share < LEAST_GAIN:
            return None
        # Image transforms were 3.2 times quicker in batches on the CPU this was developed on; simple ones are cheaper.
        return Prediction(
            low=0.3 * share,
            high=0.95 * share,
            why=f"the random transform takes {share:.0%} of a step, one sample at a time",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        batched = subject.feed.batch_augment
        if batched is None:
            raise ValueError("no `batch_augment` is declared")
        yield replace(subject, feed=replace(subject.feed, augment=None), augment=(*subject.augment, batched))

    def code(self) -> str:
        return "loader = DataLoader(without_augment, ...)\nbatch = batch_augment(batch)  # after the copy to the device"


def _unlike(subject: Subject) -> str | None:
    """Both ways must give batches of one form: the same tensors of the same shapes and types."""
    feed = subject.feed
    old = subject.placed(feed.collate([feed.read(index) for index in range(2)]))
    new = _transformed(subject, [feed.dataset[index] for index in range(2)])
    if _form(old) == _form(new):
        return None
    return f"the transform for whole batches gives {_form(new)}, the one per sample {_form(old)}"


def _all_alike(subject: Subject) -> str | None:
    """A transform that throws its dice once per batch is another transform, and a worse one."""
    copies = [subject.feed.dataset[0]] * COPIES
    one, other = _transformed(subject, list(copies)), _transformed(subject, list(copies))
    random = not same(one, other)
    if random and all(bool((tensor == tensor[:1]).all()) for tensor in tensors(one)):
        return "the transform for whole batches treats all samples of a batch alike; it must draw for each"
    return None


def _transformed(subject: Subject, samples: list[Any]) -> Batch:
    assert subject.feed.batch_augment is not None
    return subject.feed.batch_augment(subject.placed(subject.feed.collate(samples)))


def _form(batch: Batch) -> list[tuple[tuple[int, ...], str]]:
    return [(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")) for tensor in tensors(batch)]


EXAMPLES = (BatchTransforms(),)
