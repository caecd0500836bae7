"""Treat numbers too small for full precision as zero.

Below 1e-38 a float32 keeps fewer and fewer digits, and many processors handle such numbers in slow microcode. Adam's
averages decay into that range for every weight whose gradient stays zero, and rounding keeps them there for good.

Helps:      optimizer state, weights or recurrent states full of such numbers. Seen: 15 to 18 times quicker element by
            element on a processor of 2024, when all are; matrix products don't mind.
Costs:      one line, before the first parallel operator: threads take the mode over from the one that starts them.
Parity:     numbers below 1e-38 become zero; judged like sums in another order.
Undo:       the mode is set for the length of a turn. Each time the team of threads is made anew, since a thread keeps
            the mode it was born with.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

LEAST_SHARE = 0.001  # one in a thousand, at 15 times the price, costs 1.5 % of the operators that touch it
HARD_PAUSE = 2  # omp_pause_hard: OpenMP gives back all it holds, its threads included


@dataclass(frozen=True, slots=True)
class FlushDenormal:
    layers: ClassVar[tuple[str, ...]] = ("compute",)
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 50
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if subject.device.type != "cpu":
            return f"it is a mode of the CPU, and the model is on `{subject.device.type}`"
        if flushing():
            return "such numbers are flushed to zero already"
        if torch.get_num_threads() > 1 and _pause() is None:
            return "OpenMP's threads cannot be made anew here, and each keeps the mode it was born with"
        seen = denormals(subject)
        if seen.share < LEAST_SHARE:
            return f"of {seen.numbers} weights and numbers of optimizer state, {seen.denormal} are too small for full precision"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        compute = timeline.share("forward", "loss", "backward", "optimizer")
        return Prediction(
            low=0.0,
            high=0.5 * compute,
            why="weights or optimizer state hold numbers below 1e-38, which the processor handles slowly",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject.with_turn(_flushed)

    def code(self) -> str:
        return "torch.set_flush_denormal(True)  # before the first operator, so that all threads take it over"


class Denormals(NamedTuple):
    """How many of a subject's numbers are too small for full precision."""

    denormal: int
    numbers: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.denormal / self.numbers if self.numbers else 0.0


def denormals(subject: Subject) -> Denormals:
    """Counts weights and optimizer state that are too small for full precision."""
    held = [*subject.model.parameters(), *subject.model.buffers()]
    held += [
        value for state in subject.optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
    ]
    denormal = numbers = 0
    for tensor in held:
        if tensor.is_floating_point():
            size = tensor.detach().abs()
            denormal += int(((size > 0) & (size < torch.finfo(tensor.dtype).tiny)).sum())
            numbers += tensor.numel()
    return Denormals(denormal, numbers)


def flushing() -> bool:
    """True when the calling thread flushes. PyTorch can set the mode but not tell it, so a number is tried."""
    return bool((torch.tensor([1e-310], dtype=torch.float64) * 1.0 == 0).item())


@contextmanager
def _flushed() -> Iterator[None]:
    before = flushing()
    _set_everywhere(on=True)
    try:
        yield
    finally:
        _set_everywhere(on=before)


def _set_everywhere(*, on: bool) -> None:
    torch.set_flush_denormal(on)
    pause = _pause()
    if pause is not None:
        pause(HARD_PAUSE)
    # The team is made by the next parallel operator; that must not be one that is timed.
    torch.empty(1 << 17).fill_(0.0)


@cache
def _pause() -> Any:
    """`omp_pause_resource_all` of the OpenMP library that PyTorch has loaded, or None."""
    try:
        with open("/proc/self/maps") as maps:
            loaded = {line.split()[-1] for line in maps if "gomp" in line}
    except OSError:
        return None
    # More than one copy, and nobody can say whose threads they are.
    return getattr(ctypes.CDLL(loaded.pop()), "omp_pause_resource_all", None) if len(loaded) == 1 else None


EXAMPLES = (FlushDenormal(),)
