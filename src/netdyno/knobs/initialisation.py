"""Draw the first weights so that signals keep their size from layer to layer.

Helps:      deep networks without normalisation, whose signals otherwise shrink or grow with depth.
Costs:      nothing.
Look at:    `netdyno.learning.variance_walk`, which shows the size of the signal layer by layer before step 0.
Not this:   pretrained weights, which are no draw; normalised networks hardly feel it.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import Weighted, fan_in, fan_out, fresh, weighted, with_model
from netdyno.records.study import Stage

SCHEMES = ("he", "xavier", "orthogonal")


@dataclass(frozen=True, slots=True)
class Initialisation:
    """`scheme`: "he" keeps the size through ReLUs, "xavier" through what is linear near 0, "orthogonal" turns without stretching."""

    scheme: str = "he"

    stage: ClassVar[Stage] = "arch"
    reason: ClassVar[str] = "sets how large signals and gradients are in each layer before the first update"
    asks: ClassVar[str] = "how should the weights be drawn?"
    effort_min: ClassVar[float] = 5.0
    order: ClassVar[int] = 20  # after layers were swapped or added: these are drawn too

    def refuses(self, setup: Setup) -> str | None:
        if self.scheme not in SCHEMES:
            return f"`{self.scheme}` is none of {', '.join(SCHEMES)}"
        return None if any(weighted(fresh(setup))) else "the model has no linear or convolutional layer"

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(Initialisation(scheme) for scheme in SCHEMES)

    def turned(self, setup: Setup) -> Setup:
        return with_model(setup, lambda model: drawn(model, self.scheme))

    def code(self) -> str:
        return (
            "for layer in model.modules():\n"
            "    if isinstance(layer, (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)):\n"
            f"        torch.nn.init.{_CALLS[self.scheme]}\n"
            "        if layer.bias is not None:\n"
            "            torch.nn.init.zeros_(layer.bias)"
        )


_CALLS = {
    "he": 'kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")',
    "xavier": "xavier_normal_(layer.weight)",
    "orthogonal": "orthogonal_(layer.weight, gain=2**0.5)",
}


def drawn(model: nn.Module, scheme: str) -> nn.Module:
    """The model with the weights of all its linear and convolutional layers drawn anew and their biases 0.

    The last layer feeds no ReLU and gets the gain 1. Norms, embeddings, recurrent layers and attention keep what they have.
    """
    layers = [layer for _, layer in weighted(model)]
    for layer in layers:
        gain = 1.0 if layer is layers[-1] else nn.init.calculate_gain("relu")
        _draw(layer, scheme, gain)
    return model


def _draw(layer: Any, scheme: str, gain: float) -> None:
    assert isinstance(layer, Weighted)
    if scheme == "he":
        nn.init.normal_(layer.weight, 0.0, gain / math.sqrt(fan_in(layer)))
    elif scheme == "xavier":
        nn.init.normal_(layer.weight, 0.0, math.sqrt(2.0 / (fan_in(layer) + fan_out(layer))))
    else:
        nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
