"""Leave out part of the features before the last linear layer, anew at every step.

Helps:      small data, large layers: no feature can rely on another.
Costs:      learns more slowly; at most a tenth to a third is left out, and only between linear layers.
Not this:   in convolutions, whose neighbours tell what was left out; before a batch norm, whose statistics then fit training
            alone (see `netdyno.learning.placement`).
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import Dropout as Kinds
from netdyno.knobs._layers import Weighted, broken_by, fresh, has, put, ran, with_model
from netdyno.records.study import Stage

SHARES = (0.1, 0.2, 0.3)  # what is usual between linear layers (ledger A-154)


@dataclass(frozen=True, slots=True)
class Dropout:
    """`share` is left out. Where the model has dropout already its share is changed, elsewhere one is put before the last linear layer."""

    share: float = 0.2

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "adds noise to the features, so that no single one can be relied on"
    asks: ClassVar[str] = "how much should be left out before the last layer?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 16

    def refuses(self, setup: Setup) -> str | None:
        if not 0 <= self.share < 1:
            return f"a share of `{self.share}` cannot be left out"
        if has(setup, Kinds):
            return None
        if _last_linear(setup) is None:
            return "the model has neither dropout nor a linear layer behind another layer"
        return broken_by(setup, self.turned_model(setup))

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        there = {module.p for module in fresh(setup).modules() if isinstance(module, Kinds)}
        shares = (*SHARES, 0.0) if there else SHARES
        return tuple(Dropout(share) for share in shares if there != {share})

    def turned(self, setup: Setup) -> Setup:
        return with_model(setup, self.turned_model(setup))

    def code(self) -> str:
        return f"head = torch.nn.Sequential(torch.nn.Dropout({self.share}), head)  # the last linear layer"

    def turned_model(self, setup: Setup) -> Any:
        """What is done to a fresh model."""
        if has(setup, Kinds):
            return self._shared
        name = _last_linear(setup)
        return lambda model: model if name is None else self._before(model, name)

    def _shared(self, model: nn.Module) -> nn.Module:
        for module in model.modules():
            if isinstance(module, Kinds):
                module.p = self.share
        return model

    def _before(self, model: nn.Module, name: str) -> nn.Module:
        return put(model, name, nn.Sequential(nn.Dropout(self.share), model.get_submodule(name)))


def _last_linear(setup: Setup) -> str | None:
    """The name of the linear layer that runs last, unless it runs first as well: inputs are not features."""
    layers = ran(setup, Weighted)
    first = 0 if has(setup, _BEFORE) else 1
    linear = [name for name, layer, *_ in layers[first:] if isinstance(layer, nn.Linear)]
    return linear[-1] if linear else None


# What makes features of inputs and is no linear layer or convolution.
_BEFORE = (nn.RNNBase, nn.Embedding, nn.EmbeddingBag, nn.MultiheadAttention)
