"""How much of a step is matrix products and convolutions: what lower precision can quicken and fusion cannot."""

from typing import NamedTuple

from netdyno.interventions._base import Facts
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import LayerTable, OpTable, StepTimeline

# Parts of operator names, as the dispatcher writes them, that are matrix products at heart.
PRODUCT_NAMES = ("mm", "matmul", "linear", "conv", "lstm", "gru", "rnn", "attention", "einsum")
PRODUCT_LAYERS = ("Linear", "Conv", "LSTM", "GRU", "RNN", "Attention", "Bilinear")


class Compute(NamedTuple):
    """Shares of a step: forward, loss and backward together, and of these the products and the rest."""

    products: float
    rest: float

    @property
    def whole(self) -> float:
        """Forward, loss and backward."""
        return self.products + self.rest


def compute_of(facts: Facts) -> Compute | None:
    """How the compute phases split, or None when nobody timed them.

    Without a table of operators or layers everything counts as products: the most that they can be.
    """
    timeline: StepTimeline | None = facts.get(StepTimeline)
    if timeline is None:
        return None
    whole = timeline.share("forward", "loss", "backward")
    part = _products(facts)
    return Compute(products=whole * part, rest=whole * (1 - part))


def quicker(facts: Facts, dtype: str) -> float | None:
    """How many times quicker than in float32 this machine multiplies matrices in `dtype`, as it was measured."""
    ceilings: Ceilings | None = facts.get(Ceilings)
    if ceilings is None or not ceilings.matmul.get("float32") or dtype not in ceilings.matmul:
        return None
    return ceilings.matmul[dtype] / ceilings.matmul["float32"]


def is_product(name: str) -> bool:
    """True for an operator that is a matrix product or a convolution.

    >>> is_product("aten::addmm"), is_product("aten.convolution_backward.default"), is_product("aten::add")
    (True, True, False)
    """
    bare = name.lower().replace("::", ".").removeprefix("aten.").partition(".")[0]
    return any(part in bare for part in PRODUCT_NAMES)


def _products(facts: Facts) -> float:
    ops: OpTable | None = facts.get(OpTable)
    if ops is not None and ops.operator_s:
        own = sum(op.seconds for op in ops.ops)
        products = sum(op.seconds for op in ops.ops if is_product(op.name))
        # Time outside operators is no product either.
        return products / (own + ops.python_s) if own else 0.0
    table: LayerTable | None = facts.get(LayerTable)
    if table is not None and table.layers:
        seconds = sum(layer.seconds for layer in table.layers)
        products = sum(layer.seconds for layer in table.layers if any(part in layer.kind for part in PRODUCT_LAYERS))
        return products / seconds if seconds else 0.0
    return 1.0
