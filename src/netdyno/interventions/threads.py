"""Use another number of threads inside operators.

Helps:      fewer: models of many small operators, where waking a team takes longer than the work; busy machines,
            where a team waits for its slowest member. More: large operators on idle cores.
            Seen on two cores, one thread instead of two: a tiny network 3.5 times quicker at a load of four (2.5 to
            7.5) and 37 times at a load of eight (35 to 41), a transformer 0.62 times (0.61 to 0.64); in brackets the
            third lowest and the third highest of 14 pairs.
Costs:      nothing to write. The right number belongs to a machine and to its neighbours, not to the model.
Parity:     sums are split at other places, so allow for rounding.
Undo:       the number is set for the length of a turn, and set back after it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import OpTable, StepTimeline, ThreadUse
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

# Waking a team and waiting for its last member takes some microseconds; below this an operator is mostly that.
SMALL_OPERATOR_S = 30e-6
BUSY = 0.05  # waiting for a core: more than the noise of a quiet machine


@dataclass(frozen=True, slots=True)
class Threads:
    threads: int = 1

    layers: ClassVar[tuple[str, ...]] = ("compute",)
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 50
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if self.threads < 1:
            return f"`{self.threads}` is not a number of threads"
        if self.threads > cores():
            return f"this process may use {cores()} cores, fewer than {self.threads} threads"
        if subject.device.type != "cpu":
            return f"operators run on the device `{subject.device.type}`; threads inside operators are the CPU's"
        if not candidates(subject.threads or torch.get_num_threads()):
            return "this process may use one core, and PyTorch uses one thread"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        use: ThreadUse | None = facts.get(ThreadUse)
        now = use.torch_threads if use is not None else torch.get_num_threads()
        if self.threads == now:
            return None
        if use is not None and use.step_seconds_by_threads:
            return self._measured(use.step_seconds_by_threads, now)
        return self._fewer(use, facts, now) if self.threads < now else self._more(facts, now)

    def _measured(self, seconds: dict[str, float], now: int) -> Prediction | None:
        before, after = seconds.get(str(now)), seconds.get(str(self.threads))
        if not before or not after or after >= before:
            return None
        saved = 1 - after / before
        return Prediction(
            low=0.5 * saved,
            high=min(1.25 * saved, 0.99),  # a probe takes few steps, so leave room for its noise
            why=f"a probe took {after * 1e3:.3g} ms a step with {self.threads} threads, {before * 1e3:.3g} with {now}",
        )

    def _fewer(self, use: ThreadUse | None, facts: Facts, now: int) -> Prediction | None:
        table: OpTable | None = facts.get(OpTable)
        waiting = max(use.waiting_share, use.others_share / 2) if use is not None else 0.0
        mean = table.operator_s / table.dispatches if table is not None and table.dispatches else None
        if waiting >= BUSY:
            return Prediction(
                low=0.0,
                high=min(2 * waiting, 0.95),  # the team waits for its slowest member: more is lost than one waits
                why=f"{waiting:.0%} of a step goes to waiting for cores that {now} threads share with others",
            )
        if mean is not None and mean < SMALL_OPERATOR_S:
            part = 1 - mean / SMALL_OPERATOR_S
            return Prediction(
                low=0.0,
                high=0.5 * part,
                why=f"an operator takes {mean * 1e6:.0f} µs on average, little more than waking {now} threads",
            )
        return None

    def _more(self, facts: Facts, now: int) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        compute = timeline.share("forward", "loss", "backward", "optimizer")
        return Prediction(
            low=0.0,
            high=compute * (1 - now / self.threads),
            why=f"operators take {compute:.0%} of a step on {now} of {cores()} cores",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        use: ThreadUse | None = facts.get(ThreadUse)
        return self._counts(use.torch_threads if use is not None else subject.threads or torch.get_num_threads(), use)

    def for_scripts(self, facts: Facts) -> tuple[Intervention, ...]:
        """The settings for a script, which is known by its evidence alone."""
        use: ThreadUse | None = facts.get(ThreadUse)
        return self._counts(use.torch_threads, use) if use is not None else ()

    def _counts(self, now: int, use: ThreadUse | None) -> tuple[Intervention, ...]:
        known = use.step_seconds_by_threads if use is not None else {}
        counts = sorted(candidates(now), key=lambda count: (known.get(str(count), float("inf")), abs(count - now)))
        return tuple(replace(self, threads=count) for count in counts)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        yield subject.with_turn(self._set)

    @contextmanager
    def _set(self) -> Iterator[None]:
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        _form_the_team()
        try:
            yield
        finally:
            torch.set_num_threads(before)
            _form_the_team()

    def code(self) -> str:
        return f"torch.set_num_threads({self.threads})"


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def candidates(now: int) -> list[int]:
    """Numbers of threads worth trying instead of `now`: the powers of two up to the cores, and the cores themselves.

    One core left free for the data path is a fourth of the machine at most from four cores on, so it is tried too.
    """
    most = cores()
    counts = {most, *(2**power for power in range(most.bit_length()) if 2**power <= most)}
    if most >= 4:
        counts.add(most - 1)
    return sorted(counts - {now})


def _form_the_team() -> None:
    """Runs one parallel operator: a team that changed its size is made anew by the first, which must not be timed."""
    torch.empty(1 << 17).fill_(0.0)


EXAMPLES = (Threads(threads=1), Threads(threads=2))
