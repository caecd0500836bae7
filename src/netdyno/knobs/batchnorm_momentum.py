"""Let the running statistics of batch norms forget more slowly.

Helps:      small batches: the statistics that evaluation uses are averaged over more of them.
Costs:      a slow average starts from 0 and 1 and needs some 1 / momentum updates to get there; while weights still move it lags.
Look at:    `netdyno.learning.running_statistics`, which measures both errors against the statistics of all training data.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import BatchNorm, has, with_model
from netdyno.records.study import Stage

# After 3 / momentum updates the statistics from which it started weigh 5 %.
ENOUGH = 3.0


@dataclass(frozen=True, slots=True)
class BatchnormMomentum:
    """`momentum` is the weight of the newest batch; PyTorch's own is 0.1."""

    momentum: float = 0.03

    stage: ClassVar[Stage] = "arch"
    reason: ClassVar[str] = "decides over how many batches the statistics are averaged that evaluation normalises with"
    asks: ClassVar[str] = "how fast should running statistics forget?"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 14

    def refuses(self, setup: Setup) -> str | None:
        if not 0 < self.momentum <= 1:
            return f"a momentum of `{self.momentum}` is none between 0 and 1"
        if not has(setup, BatchNorm):
            return "the model has no batch norm"
        if setup.updates < ENOUGH / self.momentum:
            return f"{setup.updates} updates are too few: {(1 - self.momentum) ** setup.updates:.0%} of the start would be left"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(BatchnormMomentum(momentum) for momentum in (0.03, 0.01) if setup.updates >= ENOUGH / momentum)

    def turned(self, setup: Setup) -> Setup:
        return with_model(setup, self._set)

    def code(self) -> str:
        return (
            "for layer in model.modules():\n"
            "    if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):\n"
            f"        layer.momentum = {self.momentum}"
        )

    def _set(self, model: nn.Module) -> nn.Module:
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.momentum = self.momentum
        return model
