"""Train on larger batches, with the learning rate that goes with them.

Helps:      small models, whose steps are mostly the price of starting operators and updating weights.
Costs:      memory for activations; fewer updates per epoch. Larger batches can learn worse, so this is judged by
            the validation loss, not by time alone. The learning rate grows linearly for plain gradient descent
            and with the root for the Adam family (ledger A-141).
Parity:     other training; nothing but learning can be compared. A step holds `items_factor` times more items, so
            a trial compares seconds per item: seconds per step divided by that factor.
Undo:       batch size and learning rates are put back.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from netdyno.interventions._base import Facts, Intervention, megabytes
from netdyno.records.evidence import MemoryAccount, OpTable, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

LEAST_GAIN = 0.02  # of a step
OPERATOR_S = 2e-6  # to start a light operator and its backward, on the machine this was developed on
LEAST_STEPS = 8  # updates an epoch must keep
LINEAR = ("SGD", "ASGD")
ROOT = ("Adam", "AdamW", "Adamax", "NAdam", "RAdam", "SparseAdam", "RMSprop", "Adagrad", "Adadelta", "Adafactor")
MEMORY_LEFT = 0.9  # of what was available: the peak is an estimate


@dataclass(frozen=True, slots=True)
class BatchSize:
    factor: int = 2

    layers: ClassVar[tuple[str, ...]] = ("compute", "optimisation", "data", "memory")
    numerics: ClassVar[Numerics] = "other-training"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 20
    effort: ClassVar[float] = 30.0
    memory_only: ClassVar[bool] = False

    @property
    def items_factor(self) -> float:
        """How many times more items a step holds."""
        return float(self.factor)

    def refuses(self, subject: Subject) -> str | None:
        feed = subject.feed
        if self.factor < 2:
            return f"a factor of {self.factor} makes no larger batch"
        if scaling(subject.optimizer, self.factor) is None:
            return f"no rule says how the learning rate of `{type(subject.optimizer).__name__}` goes with the batch"
        steps = feed.steps_per_epoch
        if steps is not None and steps // self.factor < LEAST_STEPS:
            return f"an epoch would have {steps // self.factor} updates left; fewer than {LEAST_STEPS} say too little"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None or not timeline.step.own or self._bursts(facts.get(MemoryAccount)):
            return None
        # Per step, whatever the batch: the update, the log, the Python between operators and the start of each.
        once = timeline.share("optimizer", "log")
        table: OpTable | None = facts.get(OpTable)
        between = (table.python_s + table.dispatches * OPERATOR_S) / timeline.step.own if table is not None else 0.0
        saved = 1 - 1 / self.factor
        high = saved * min(1.0, once + between)
        if high < LEAST_GAIN:
            return None
        return Prediction(
            low=saved * once,
            high=high,
            why=f"{once:.0%} of a step is paid per update and about {between:.0%} between operators, whatever the batch; "
            f"with {self.factor} times the items, each item pays 1/{self.factor} of it",
        )

    def _bursts(self, account: MemoryAccount | None) -> str | None:
        if account is None:
            return None
        grown = account.peak + (self.factor - 1) * (account.activations + account.workspace + account.batch)
        if grown <= MEMORY_LEFT * account.available:
            return None
        return f"{megabytes(grown)} of {megabytes(account.available)}"

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return tuple(one for one in (BatchSize(2), BatchSize(4)) if one.refuses(subject) is None)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        scale = scaling(subject.optimizer, self.factor)
        if scale is None:
            raise ValueError(f"no rule for the learning rate of {type(subject.optimizer).__name__}")
        groups = subject.optimizer.param_groups
        kept = [(group, group["lr"]) for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * scale
        feed = subject.feed
        try:
            yield replace(subject, feed=replace(feed, batch_size=feed.batch_size * self.factor))
        finally:
            for group, rate in kept:
                group["lr"] = rate

    def code(self) -> str:
        return (
            f"batch_size *= {self.factor}\n"
            f"lr *= {self.factor}  # SGD; for Adam and its family: lr *= {math.sqrt(self.factor):.3g}"
        )


def scaling(optimizer: torch.optim.Optimizer, factor: int) -> float | None:
    """What the learning rate is multiplied by for a batch `factor` times larger, or None without a rule."""
    names = {kind.__name__ for kind in type(optimizer).__mro__}
    if names & {*LINEAR}:
        return float(factor)
    return math.sqrt(factor) if names & {*ROOT} else None


EXAMPLES: tuple[Any, ...] = (BatchSize(), BatchSize(factor=4))
