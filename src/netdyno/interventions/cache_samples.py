"""Read every sample once and keep it in memory.

Helps:      samples that are decoded or computed anew in each epoch.
Costs:      the memory of all decoded samples, and one pass over the data before the first step. Loader workers
            inherit the filled cache when they are forked; touching its objects copies pages, so that each may
            come to hold a copy of its own.
Parity:     the same bits; only a data set whose samples never change is cached. A declared random transform runs
            after the cache, on a copy.
Undo:       the data set itself is read again, and the cache is dropped.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch.utils.data import Dataset

from netdyno.interventions._base import Facts, Intervention, free_memory, megabytes
from netdyno.records.evidence import LoaderProfile, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.feed import Feed
from netdyno.targets.samples import deterministic, in_memory, kept_randomness, size, spread
from netdyno.targets.subject import Subject

LEAST_GAIN = 0.02  # of a step
MEASURED = 4  # samples whose size stands for all
MEMORY_SHARE = 0.5  # of what is free; the rest belongs to the model


@dataclass(frozen=True, slots=True)
class CacheSamples:
    layers: ClassVar[tuple[str, ...]] = ("data", "memory")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 2
    effort: ClassVar[float] = 10.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if feed.direct is not None or in_memory(feed.dataset) or isinstance(feed.dataset, Cached):
            return "the samples are in memory already"
        if feed.iterable:
            return "the data set is a stream: its samples have no numbers to find them by"
        if feed.workers and feed.start_method not in (None, "fork"):
            return f"workers started by `{feed.start_method}` would each receive a copy of the whole cache"
        try:
            return self._too_big(feed) or _changing(feed)
        except Exception as error:
            return f"samples cannot be read: {type(error).__name__}: {error}"

    def _too_big(self, feed: Feed) -> str | None:
        needed = _bytes_of_all(feed.dataset) * (feed.workers + 1)
        budget = MEMORY_SHARE * free_memory()
        if needed <= budget:
            return None
        return f"all samples would take {megabytes(needed)}; the budget is {megabytes(budget)}"

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        profile: LoaderProfile | None = facts.get(LoaderProfile)
        if timeline is None or profile is None or not profile.sample.own or profile.iterable:
            return None
        decoding = max(0.0, 1 - profile.augment.own / profile.sample.own)
        share = timeline.share("data") * decoding
        if share < LEAST_GAIN:
            return None
        return Prediction(
            low=0.5 * share,
            high=share,
            why=f"reading samples takes {timeline.share('data'):.0%} of a step, {decoding:.0%} of it before any "
            "random transform",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        # Filled before the first step: filled on the way, a trial would compare one epoch of filling with another.
        yield replace(subject, feed=replace(subject.feed, dataset=Cached(subject.feed.dataset)))

    def code(self) -> str:
        return (
            "samples = [dataset[i] for i in range(len(dataset))]  # a list is a data set; the random transform stays "
            "outside\nloader = DataLoader(Transformed(samples), ...)"
        )


class Cached(Dataset[Any]):
    """The samples of another data set, read once. Each read gives a copy, so that nobody can spoil the cache."""

    def __init__(self, base: Dataset[Any]) -> None:
        count = len(base)  # type: ignore[arg-type]
        with kept_randomness():
            self.samples = [base[index] for index in range(count)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        return torch.utils._pytree.tree_map(_copied, self.samples[index])


def _copied(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.clone()
    if isinstance(leaf, int | float | str | bytes | None):
        return leaf
    return leaf.copy() if hasattr(leaf, "copy") else copy.deepcopy(leaf)


def _bytes_of_all(dataset: Dataset[Any]) -> int:
    count = len(dataset)  # type: ignore[arg-type]
    chosen = spread(count, MEASURED)
    with kept_randomness():
        return count * sum(size(dataset[index]) for index in chosen) // max(1, len(chosen))


def _changing(feed: Feed) -> str | None:
    if deterministic(feed.dataset):
        return None
    return "a sample read twice is not the same: declare its random transform as `augment=`, apart from `train=`"


EXAMPLES = (CacheSamples(),)
