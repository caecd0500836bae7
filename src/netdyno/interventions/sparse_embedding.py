"""Give an embedding's gradient as the few rows that were looked up, not as a table that is nearly all zeros.

Helps:      large embeddings of which a step touches little, with an optimizer that leaves untouched rows alone.
            Seen: 3.5x for 50,000 rows of 64, 256 lists of 50, forward and backward.
Costs:      one argument. Clipping and averaging of gradients must know sparse tensors.
Parity:     gradients of one row are added up in another order. With weight decay, momentum or Adam untouched rows would
            move too, so there it is refused.
Undo:       the flag of each embedding is set back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import OpTable, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject

LEAST_ROWS = 1000  # below, a dense gradient costs less than sorting the rows that were touched


@dataclass(frozen=True, slots=True)
class SparseEmbedding:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory", "optimisation")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 9  # before embedding-bag, which reads the flag
    effort: ClassVar[float] = 3.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        if not any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for module in subject.model.modules()):
            return "the model has no embedding"
        if not _dense(subject.model):
            return f"no embedding has {LEAST_ROWS} rows or more, gives them densely and has its weight to itself"
        optimizer = subject.optimizer
        name = type(optimizer).__name__
        if type(optimizer) not in (torch.optim.SGD, torch.optim.Adagrad):
            return (
                f"`{name}` moves rows that a step did not touch, or takes no sparse gradients; plain SGD and Adagrad do"
            )
        for group in optimizer.param_groups:
            moving = [key for key in ("momentum", "weight_decay") if group.get(key)]
            if moving:
                return f"`{name}` with {' and '.join(moving)} moves rows that a step did not touch"
            if group.get("fused") or group.get("foreach"):
                return f"`{name}` is fused or updates list by list, which sparse gradients cannot"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        ops: OpTable | None = facts.get(OpTable)
        if timeline is None:
            return None
        touched = timeline.share("backward", "optimizer")
        if ops is not None and ops.operator_s and ops.ops:
            ours = sum(op.seconds for op in ops.ops if "embedding" in op.name.lower())
            touched = min(touched, ours / (ops.operator_s + ops.python_s) + timeline.share("optimizer"))
        return Prediction(
            low=0.0,
            high=0.8 * touched,
            why=f"gradients of embeddings and their update take up to {touched:.0%} of a step, most of it for zeros",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        changed = _dense(subject.model)
        kept = [(module.weight, module.weight.grad) for module in changed]
        try:
            for module in changed:
                module.sparse = True
            yield subject
        finally:
            for module in changed:
                module.sparse = False
            for weight, gradient in kept:
                if weight.grad is not None and weight.grad.is_sparse:
                    weight.grad = gradient

    def code(self) -> str:
        return "self.embedding = nn.Embedding(rows, width, sparse=True)"


def _dense(model: nn.Module) -> list[nn.Embedding | nn.EmbeddingBag]:
    """The embeddings that are large, dense, and the only ones to use their weight."""
    uses: dict[int, int] = {}
    for module in model.modules():
        for parameter in module._parameters.values():
            uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    return [
        module
        for module in model.modules()
        if isinstance(module, nn.Embedding | nn.EmbeddingBag)
        and not module.sparse
        and module.num_embeddings >= LEAST_ROWS
        and uses[id(module.weight)] == 1
        and not module.scale_grad_by_freq
    ]


EXAMPLES = (SparseEmbedding(),)
