"""Look up and average (or add up) in one go, without writing the looked-up vectors down.

Helps:      an `nn.Embedding` whose vectors are at once averaged or summed over the tokens, as recommenders and bags
            of words do. Seen: 0.49x of the time for 50,000 rows of 64, 256 lists of 50, forward and backward.
Costs:      one word in the model; the state dict stays the same.
Parity:     sums run in another order: 2e-7 apart.
Undo:       the module gets its own forward back; the weight was never touched.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import LayerTable, OpTable, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject
from netdyno.targets.traced import Unusable, rewritten, traced

LEAST = 0.02


@dataclass(frozen=True, slots=True)
class EmbeddingBag:
    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 10
    effort: ClassVar[float] = 5.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        found = look(subject.model)
        return None if found.owners else found.reason

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        share = timeline.share("forward", "loss", "backward") * _share(facts)
        if share < LEAST:
            return None
        return Prediction(
            low=0.0,
            high=0.6 * share,  # 0.51 was seen where there is nothing else in a step
            why=f"lookups and what comes of them take up to {share:.0%} of a step; in one go they take about half",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        with ExitStack() as stack:
            for module in look(subject.model).owners:
                stack.enter_context(rewritten(module, _bagged))
            yield subject

    def code(self) -> str:
        return (
            'self.embedding = nn.EmbeddingBag(rows, width, mode="mean")  # instead of nn.Embedding\n'
            "x = self.embedding(tokens)  # instead of self.embedding(tokens).mean(1)"
        )


class Look(NamedTuple):
    """The modules whose forward looks up and reduces; without any, why."""

    owners: list[nn.Module]
    reason: str


def look(model: nn.Module) -> Look:
    """Where the model looks vectors up only to average or add them up over dimension 1."""
    if not any(isinstance(module, nn.Embedding) for module in model.modules()):
        return Look([], "the model has no embedding")
    owners, reason = [], "the vectors of single tokens are used, not only their mean or sum over dimension 1"
    for module in model.modules():
        if not any(isinstance(part, nn.Embedding) for part in module.children()):
            continue
        try:
            if _bagged(traced(module)):
                owners.append(module)
        except Unusable as why:
            reason = f"`{type(module).__name__}` holds an embedding, but {why}"
    return Look(owners, reason)


def _bagged(graph: fx.GraphModule) -> int:
    """Replaces each lookup followed by its reduction; how many there were."""
    pairs = [(node, reduction) for node in graph.graph.nodes if (reduction := _reduction(graph, node)) is not None]
    for lookup, reduction in pairs:
        mode, dim = _how(reduction)
        with graph.graph.inserting_before(reduction):
            weight = graph.graph.get_attr(f"{lookup.target}.weight")
            sparse = bool(graph.get_submodule(str(lookup.target)).sparse)
            bag = graph.graph.call_function(
                _bag, (lookup.args[0], weight), {"mode": mode, "dim": dim, "sparse": sparse}
            )
        reduction.replace_all_uses_with(bag)
        graph.graph.erase_node(reduction)
        graph.graph.erase_node(lookup)
    return len(pairs)


def _reduction(graph: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The node that reduces what `node` looks up, if nothing else uses it and the two are one EmbeddingBag."""
    if node.op != "call_module" or not isinstance(module := graph.get_submodule(str(node.target)), nn.Embedding):
        return None
    # Padding, clipping and scaling mean something else to a bag; a hook wants the single vectors.
    special = module.padding_idx is not None or module.max_norm is not None or module.scale_grad_by_freq
    if special or module._forward_hooks or module._forward_pre_hooks or len(node.users) != 1 or node.kwargs:
        return None
    user = next(iter(node.users))
    return user if _how(user) is not None else None


def _how(node: fx.Node) -> Any:
    """("mean" or "sum", dimension) of a node that reduces over the tokens, else None."""
    target: Any = node.target
    if node.op == "call_function":
        target = {torch.mean: "mean", torch.sum: "sum"}.get(target)
    if node.op not in {"call_method", "call_function"} or target not in {"mean", "sum"}:
        return None
    given = dict(zip(("input", "dim"), node.args, strict=False)) | dict(node.kwargs)
    if len(node.args) > 2 or set(given) - {"input", "dim", "keepdim"} or given.get("keepdim"):
        return None
    dim = given.get("dim")
    dim = dim[0] if isinstance(dim, list | tuple) and len(dim) == 1 else dim
    return (target, dim) if dim in (1, -2) else None


def _bag(tokens: Tensor, weight: Tensor, *, mode: str, dim: int, sparse: bool) -> Tensor:
    if tokens.dim() != 2:  # dimension 1 is then not that of the tokens
        looked_up = F.embedding(tokens, weight, sparse=sparse)
        return looked_up.mean(dim) if mode == "mean" else looked_up.sum(dim)
    return F.embedding_bag(tokens, weight, mode=mode, sparse=sparse)


def _share(facts: Facts) -> float:
    table: LayerTable | None = facts.get(LayerTable)
    ops: OpTable | None = facts.get(OpTable)
    if ops is not None and ops.operator_s and ops.ops:
        # The gradient of a mean is spread over all tokens before the lookup's backward adds it up again.
        names = ("embedding", "mean", "sum", "expand", "div")
        touched = sum(op.seconds for op in ops.ops if any(name in op.name.lower() for name in names))
        return touched / (ops.operator_s + ops.python_s)
    if table is not None and table.layers:
        whole = sum(layer.seconds for layer in table.layers)
        return sum(layer.seconds for layer in table.layers if layer.kind == "Embedding") / whole if whole else 0.0
    return 1.0


EXAMPLES = (EmbeddingBag(),)
