"""Update all parameters list by list instead of one by one.

Helps:      models of many small tensors: a list takes one call where each tensor took one. Seen on a CPU: 1.7x of the
            update for Adam with 400 tensors of 64 numbers, 1.0x for a few large ones.
Costs:      temporaries as large as all parameters together.
Parity:     the same bits for SGD, Adam, AdamW and Adagrad; others may round differently.
Undo:       the flags of the optimizer's groups are set back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.optim.optimizer import _default_to_fused_or_foreach

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject, parameters_of

LEAST_SHARE = 0.02  # of a step: less is below any gain that a trial can show


@dataclass(frozen=True, slots=True)
class ForeachOptimizer:
    layers: ClassVar[tuple[str, ...]] = ("optimisation", "compute")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 20
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        optimizer = subject.optimizer
        name = type(optimizer).__name__
        if any("foreach" not in group for group in optimizer.param_groups):
            return f"`{name}` knows no `foreach`"
        if any(group["foreach"] for group in optimizer.param_groups):
            return f"`{name}` updates list by list already"
        if any(group.get("fused") for group in optimizer.param_groups):
            return f"`{name}` is fused, which is quicker than list by list"
        if any(group.get("differentiable") for group in optimizer.param_groups):
            return f"`{name}` is differentiable, and `foreach` is not"
        if any(isinstance(group["lr"], Tensor) and not group.get("capturable") for group in optimizer.param_groups):
            return f"the learning rate of `{name}` is a tensor, which `foreach` does not take"
        if _default_to_fused_or_foreach(list(parameters_of(optimizer)), differentiable=False)[1]:
            return f"on `{subject.device.type}` PyTorch updates list by list unless it is told otherwise"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        share = timeline.share("optimizer")
        if share < LEAST_SHARE:
            return None
        return Prediction(
            low=-0.1 * share,
            high=0.4 * share,
            why=f"the update takes {share:.0%} of a step; list by list it takes from a tenth more to two fifths less",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        kept = [(group, group["foreach"]) for group in subject.optimizer.param_groups]
        try:
            for group, _ in kept:
                group["foreach"] = True
            yield subject
        finally:
            for group, foreach in kept:
                group["foreach"] = foreach

    def code(self) -> str:
        return "optimizer = torch.optim.AdamW(model.parameters(), ..., foreach=True)  # or whichever you use"


EXAMPLES = (ForeachOptimizer(),)
