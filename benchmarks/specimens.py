"""Changes of known size, for benches that must know the truth: a placebo, and a delay that can be taken away."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from netdyno import Workload
from netdyno.interventions import _base
from netdyno.interventions._base import Facts
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject


@dataclass(frozen=True)
class _Specimen:
    """What placebo and planted change share: nothing about them can be known beforehand."""

    layers: ClassVar[tuple[str, ...]] = ("compute",)
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 30
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        return Prediction(low=0.0, high=0.5, why="a specimen") if StepTimeline in facts or not facts else None

    def settings(self, subject: Subject, facts: Facts) -> tuple[Any, ...]:
        return (self,)

    def code(self) -> str:
        return "# a specimen"


@dataclass(frozen=True)
class Placebo(_Specimen):
    """Does nothing. `number` tells one from another."""

    number: int = 0

    @contextlib.contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject


@dataclass(frozen=True)
class RemoveDelay(_Specimen):
    """Takes the planted delay away."""

    @contextlib.contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        kept = subject.model.delay_s
        subject.model.delay_s = 0.0
        try:
            yield subject
        finally:
            subject.model.delay_s = kept


def here() -> str:
    """With how many threads and cores a bench runs, for the line under its title."""
    return f"{torch.get_num_threads()} operator thread(s) on {len(os.sched_getaffinity(0))} core(s)"


def register(*kinds: type) -> None:
    """Put specimens into the catalogue of this process."""
    for kind in kinds:
        name = "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("-")
        _base.catalogue()[name] = kind


class Delayed(nn.Module):
    """A small CNN that burns `delay_s` seconds of its thread's CPU time in every forward pass."""

    def __init__(self, delay_s: float) -> None:
        super().__init__()
        self.delay_s = delay_s
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(16 * 64, 10),
        )  # fmt: skip

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.delay_s:
            until = time.thread_time() + self.delay_s
            while time.thread_time() < until:
                pass
        return self.layers(images)


def delayed(delay_s: float = 0.0, *, batch_size: int = 64) -> Workload:
    """Digits and a small CNN with a planted delay."""

    def data() -> tuple[torch.Tensor, torch.Tensor]:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        return torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(labels)

    return Workload(name="delayed", model=lambda: Delayed(delay_s), train=data, batch_size=batch_size)
