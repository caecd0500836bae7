"""Cut batches from tensors that hold the whole data set, without a DataLoader.

Helps:      data that fit in memory: a loader spends microseconds on every sample, a slice on every batch.
Costs:      the memory of the whole data set, and one pass over the data before the first step.
Parity:     the same samples in the same batches, to the bit.
Undo:       the loader comes back, and the tensors are dropped.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from netdyno.interventions._base import Facts, Intervention, free_memory, megabytes
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.feed import Feed
from netdyno.targets.samples import deterministic, in_memory, kept_randomness, same, size, spread, tensors_behind
from netdyno.targets.subject import Subject, mapped, tensors

LEAST_GAIN = 0.02  # of a step
PROBED = 16  # samples that are collated in two ways before it is believed that a batch is made row by row
CHUNK = 256  # samples collated at once while filling: enough to be quick, few enough to need little room
MEMORY_SHARE = 0.5  # of what is free where the rows live; the rest belongs to the model


@dataclass(frozen=True, slots=True)
class TensorSlicing:
    where: str = "host"  # or "device": all rows live where the model does, and no batch is copied

    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 3
    effort: ClassVar[float] = 15.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if self.where not in ("host", "device"):
            return f"rows can live on the `host` or on the `device`, not on `{self.where}`"
        if self.where == "device" and subject.device.type == "cpu":
            return "the model runs on the CPU: host and device are one"
        if feed.direct is not None:
            return "batches are cut from tensors already"
        if feed.iterable:
            return "the data set is a stream: its samples have no numbers to cut by"
        if feed.augment is not None:
            return "a random transform changes every sample when it is read; move it to whole batches first"
        if "batch_sampler" in feed.extra:
            return "the program brings a sampler of its own"
        try:
            return self._unfit(subject)
        except Exception as error:
            return f"samples do not stack into tensors: {type(error).__name__}: {error}"

    def _unfit(self, subject: Subject) -> str | None:
        feed = subject.feed
        if not in_memory(feed.dataset) and not deterministic(feed.dataset):
            return (
                "a sample read twice is not the same: declare its random transform as `augment=`, apart from `train=`"
            )
        chosen = spread(_count(feed.dataset), PROBED)
        with kept_randomness():
            samples = [feed.dataset[index] for index in chosen]
            batch = feed.collate(list(samples))
            pieces = [feed.collate([sample]) for sample in samples]
        if len(torch.utils._pytree.tree_leaves(batch)) != len(tensors(batch)):
            return "batches hold something other than tensors"
        if not all(same(_cut(batch, torch.tensor([row])), piece) for row, piece in enumerate(pieces)):
            return "collating makes a sample look different in different company, so batches cannot be cut from one"
        needed = size(batch) * _count(feed.dataset) // len(chosen)
        budget = MEMORY_SHARE * (_free_on(subject.device) if self.where == "device" else free_memory())
        if needed > budget:
            return f"the whole data set would take {megabytes(needed)}; the budget is {megabytes(budget)}"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        if timeline is None or profile is None or profile.iterable or not profile.stackable:
            return None
        copies = timeline.share("copy") if self.where == "device" else 0.0
        share = timeline.share("data", "collate") + copies
        if profile.sample.own:
            share -= timeline.share("data") * min(1.0, profile.augment.own / profile.sample.own)
        if share < LEAST_GAIN:
            return None
        # 42 times quicker than a loader over rows in memory, measured on the machine this was developed on.
        return Prediction(
            low=0.6 * share,
            high=0.98 * share,
            why=f"reading and collating takes {share:.0%} of a step; a slice takes next to nothing",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        if subject.device.type == "cpu":
            return (replace(self, where="host"),)
        return (replace(self, where="device"), replace(self, where="host"))

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        if subject.feed.augment is not None:
            yield subject  # slices would leave the random transform out, and be fast for doing less
            return
        rows = all_rows(subject.feed)
        if self.where == "device":
            rows = mapped(rows, lambda tensor: tensor.to(subject.device))
        direct = cutting(rows)
        _must_equal(direct, subject.feed)
        yield replace(subject, feed=replace(subject.feed, direct=direct))

    def code(self) -> str:
        there = ".to(device)" if self.where == "device" else ""
        return (
            f"inputs, targets = (column{there} for column in default_collate(list(dataset)))\n"
            f"for chosen in torch.randperm(len(targets)).split(batch_size):\n"
            f"    batch = inputs[chosen{there}], targets[chosen{there}]"
        )


def all_rows(feed: Feed) -> Any:
    """The whole data set as one batch, in the structure that the feed's collate gives."""
    with kept_randomness():
        behind = tensors_behind(feed.dataset)
        if behind is not None:
            shape = torch.utils._pytree.tree_structure(feed.collate([feed.dataset[0]]))
            return torch.utils._pytree.tree_unflatten(list(behind), shape)
        return _collated(feed)


def _collated(feed: Feed) -> Any:
    count = _count(feed.dataset)
    whole: list[Tensor] = []
    shape = None
    for start in range(0, count, CHUNK):
        part = feed.collate([feed.dataset[index] for index in range(start, min(start + CHUNK, count))])
        leaves, shape = torch.utils._pytree.tree_flatten(part)
        whole = whole or [leaf.new_empty((count, *leaf.shape[1:])) for leaf in leaves]
        for column, leaf in zip(whole, leaves, strict=True):
            if column.shape[1:] != leaf.shape[1:]:
                raise ValueError(f"samples {start} and after collate to rows of another shape: {tuple(leaf.shape[1:])}")
            column[start : start + len(leaf)] = leaf
    assert shape is not None
    return torch.utils._pytree.tree_unflatten(whole, shape)


def cutting(rows: Any) -> Callable[[Tensor], Any]:
    """A function from sample numbers to their batch."""

    def direct(chosen: Tensor) -> Any:
        return _cut(rows, chosen)

    return direct


def _cut(rows: Any, chosen: Tensor) -> Any:
    return mapped(rows, lambda column: column.index_select(0, chosen.to(column.device)))


def _must_equal(direct: Callable[[Tensor], Any], feed: Feed) -> None:
    """Two batches, cut and collated, must be equal to the bit: what a few samples promised is held here."""
    count = _count(feed.dataset)
    size = min(feed.batch_size, count)
    for chosen in (torch.arange(size).flip(0), torch.tensor(spread(count, size))):
        with kept_randomness():
            collated = feed.collate([feed.dataset[index] for index in chosen.tolist()])
        if not same(direct(chosen), collated):
            raise ValueError("a batch cut from the whole data set differs from the loader's; collate is not row by row")


def _count(dataset: Dataset[Any]) -> int:
    return len(dataset)  # type: ignore[arg-type]


def _free_on(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0


EXAMPLES = (TensorSlicing(),)
