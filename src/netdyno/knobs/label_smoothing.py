"""Ask for a little less than certainty: each label gives up a share that all classes divide.

Helps:      models that grow too sure; labels of which some are wrong.
Costs:      a loss that cannot reach 0 (see `floor`), probabilities that stay below 1, a poorer teacher.
Not this:   validation, which keeps the workload's own loss.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import classes, no_classes, smoothing_floor, with_loss
from netdyno.records.study import Stage


@dataclass(frozen=True, slots=True)
class LabelSmoothing:
    """`smoothing` is the share that is divided; a tenth is usual."""

    smoothing: float = 0.1

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "keeps the gradient from pushing answers that are right towards certainty"
    asks: ClassVar[str] = "how sure should labels be?"
    effort_min: ClassVar[float] = 1.0
    order: ClassVar[int] = 32

    def refuses(self, setup: Setup) -> str | None:
        if not 0 <= self.smoothing < 1:
            return f"a smoothing of `{self.smoothing}` leaves nothing of the label"
        return no_classes(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (LabelSmoothing(0.1), LabelSmoothing(0.05), LabelSmoothing(0.2))

    def turned(self, setup: Setup) -> Setup:
        return with_loss(setup, smoothing=self.smoothing)

    def code(self) -> str:
        return f"loss = torch.nn.functional.cross_entropy(output, target, label_smoothing={self.smoothing})"

    def floor(self, setup: Setup) -> float:
        """What a training loss has to be read against: the least that it can be, in nats."""
        return smoothing_floor(classes(setup), self.smoothing)
