"""Known answers: delays of known size, injected into each phase of a small training step, and what is found."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Stopwatch
from netdyno.measure.untouched import random_state
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Split, Turn
from netdyno.records.selftest import KnownAnswer
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload

PHASES = ("data", "collate", "copy", "forward", "loss", "backward", "optimizer", "log")
KINDS = ("running", "blocked")
# Some times the step itself, and some times what a scheduler or a timer is off by (about 0.1 ms).
INJECTED_S = 0.010
PAIRS = 7  # a median of seven survives three turns in which the machine did something else
STEPS = 2
BATCH = 8
WIDTH = 16


@dataclass
class Delay:
    """A delay that can be switched on: in one phase, of one kind, of one size."""

    seconds: float
    phase: str = ""
    kind: str = ""

    def at(self, phase: str) -> None:
        """Delay, if this is the phase."""
        if phase == self.phase:
            (spin if self.kind == "running" else time.sleep)(self.seconds)

    @contextmanager
    def on(self, phase: str, kind: str) -> Iterator[None]:
        """The delay is in `phase` inside the block."""
        self.phase, self.kind = phase, kind
        try:
            yield
        finally:
            self.phase, self.kind = "", ""


def spin(seconds: float) -> None:
    """Keeps this thread on a core for so many seconds of its own, however long that takes by the clock on the wall."""
    end = time.thread_time_ns() + round(seconds * 1e9)
    while time.thread_time_ns() < end:
        pass


def known_answers(
    *,
    seed: int = 0,
    listener: Listener = silent,
    injected_s: float = INJECTED_S,
    pairs: int = PAIRS,
    watch: Callable[[], Stopwatch] = Stopwatch,
) -> tuple[KnownAnswer, ...]:
    """One answer per phase and kind: where a delay of known size was found, as what, and how large.

    Each is the median difference over pairs of turns with and without the delay, in random order within a pair.
    A busy machine adds waiting, and waiting is neither of the two kinds. Takes a few seconds on one thread;
    thread count and random state are left as they were.
    """
    threads = torch.get_num_threads()
    order = random.Random(seed)
    delay = Delay(injected_s)
    answers: list[KnownAnswer] = []
    cases = [(phase, kind) for phase in PHASES for kind in KINDS]
    with random_state():
        # Threads that wait for each other spin, which counts as running: one thread has nobody to wait for.
        torch.set_num_threads(1)
        stepper = Stepper(delayed(delay, seed), watch())
        try:
            stepper.take(3)
            for done, (phase, kind) in enumerate(cases):
                listener(Event("known answers", done, len(cases)))
                answers.append(_answer(stepper, delay, phase, kind, pairs=pairs, order=order))
        finally:
            stepper.close()
            torch.set_num_threads(threads)
    return tuple(answers)


def _answer(stepper: Stepper, delay: Delay, phase: str, kind: str, *, pairs: int, order: random.Random) -> KnownAnswer:
    with_delay, without = [], []
    for _ in range(pairs):
        for injected in order.sample((True, False), 2):
            if injected:
                with delay.on(phase, kind):
                    with_delay.append(stepper.take(STEPS))
            else:
                without.append(stepper.take(STEPS))
    found_phase, found_kind, found_s = located(with_delay, without)
    return KnownAnswer(
        phase=phase,
        kind=kind,
        injected_s=delay.seconds,
        found_s=found_s,
        found_phase=found_phase,
        found_kind=found_kind,
    )


def located(with_delay: list[Turn], without: list[Turn]) -> tuple[str, str, float]:
    """The phase and kind that differ most between turns, and by how many seconds per step."""
    names = {name for turn in (*with_delay, *without) for name in turn.phases}
    differences = {
        (name, kind): median(
            _part(late, name, kind) - _part(early, name, kind) for late, early in zip(with_delay, without, strict=True)
        )
        for name in sorted(names)
        for kind in KINDS
    }
    (phase, kind), seconds = max(differences.items(), key=lambda item: item[1])
    return phase, kind, seconds


def _part(turn: Turn, phase: str, kind: str) -> float:
    return getattr(turn.phases.get(phase, Split()), kind) / turn.steps


def delayed(delay: Delay, seed: int) -> Subject:
    """A small subject that passes by `delay` in each of its phases."""
    workload = Workload(
        model=lambda: _Model(delay),
        train=lambda: _Data(delay),
        val=lambda: _Data(delay),
        loss=_loss(delay),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.01),
        batch_size=BATCH,
        collate=_collate(delay),
        log=lambda _, __: delay.at("log"),
        name="known answers",
    )
    subject = workload.fresh(seed)
    subject.optimizer.register_step_pre_hook(lambda *_: delay.at("optimizer"))
    return replace(subject, place=(_placement(delay),))


class _Data(Dataset[Any]):
    """Passes by the delay once per batch, not once per sample: what a timer is off by would add up."""

    def __init__(self, delay: Delay) -> None:
        self.delay = delay
        self.inputs = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(0))
        self.read = 0

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.read % BATCH == 0:
            self.delay.at("data")
        self.read += 1
        return self.inputs[index], self.inputs[index].sum()


class _Late(torch.autograd.Function):
    """Passes its input on, and by the delay on the way back."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, delay: Delay) -> Tensor:
        ctx.delay = delay
        return given.view_as(given)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        ctx.delay.at("backward")
        return gradients[0], None


class _Model(nn.Module):
    def __init__(self, delay: Delay) -> None:
        super().__init__()
        self.delay = delay
        self.layer = nn.Linear(WIDTH, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        self.delay.at("forward")
        return _Late.apply(self.layer(inputs).squeeze(1), self.delay)  # type: ignore[no-any-return]


def _loss(delay: Delay) -> Callable[[Tensor, Tensor], Tensor]:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        delay.at("loss")
        return nn.functional.mse_loss(output, target)

    return loss


def _collate(delay: Delay) -> Callable[[list[Any]], Any]:
    def collate(samples: list[Any]) -> Any:
        delay.at("collate")
        return torch.utils.data.default_collate(samples)

    return collate


def _placement(delay: Delay) -> Callable[[Any], Any]:
    def place(batch: Any) -> Any:
        delay.at("copy")
        return batch

    return place
