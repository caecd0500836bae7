"""Let what is answered well count less: -alpha_t * (1 - p_t)^gamma * log(p_t).

Helps:      where easy samples of a common class drown the rest: their share of the loss falls, by (1 - p_t)^gamma.
Costs:      probabilities that are no longer calibrated; a metric that counts all samples alike may fall.
Not this:   alpha 0.25 was tuned for dense detection together with gamma 2, where it weighs the rare class *down*. Here alpha comes from
            the counts of the classes, or is 1.
"""

from dataclasses import dataclass
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import UNEVEN, class_weights, imbalance, no_classes, no_labels, with_loss
from netdyno.records.study import Stage


@dataclass(frozen=True, slots=True)
class FocalLoss:
    """`gamma` is how fast good answers fade, 0 not at all; with `balanced`, alpha is one weight per class, from its count."""

    gamma: float = 2.0
    balanced: bool = False

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "shifts the gradient from samples that are answered well to those that are not"
    asks: ClassVar[str] = "should well answered samples count less?"
    effort_min: ClassVar[float] = 5.0
    order: ClassVar[int] = 34

    def refuses(self, setup: Setup) -> str | None:
        if self.gamma < 0:
            return f"a gamma of `{self.gamma}` would let good answers count more"
        return no_labels(setup) if self.balanced else no_classes(setup)

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        plain = (FocalLoss(2.0), FocalLoss(1.0))
        # On even classes alpha would be 1 for all.
        uneven = no_labels(setup) is None and imbalance(setup) >= UNEVEN
        return (*plain, FocalLoss(2.0, balanced=True)) if uneven else plain

    def turned(self, setup: Setup) -> Setup:
        if not self.balanced:
            return with_loss(setup, gamma=self.gamma)
        return with_loss(setup, gamma=self.gamma, weight=class_weights(setup, 1.0))

    def code(self) -> str:
        alpha = "alpha[target] * " if self.balanced else ""
        first = (
            "alpha = 1 / torch.bincount(targets, minlength=classes).clamp(min=1)\nalpha *= len(targets) / alpha[targets].sum()\n"
            if self.balanced
            else ""
        )
        return (
            f"{first}log_p = torch.log_softmax(output, 1).gather(1, target[:, None])[:, 0]\n"
            f"loss = -({alpha}(1 - log_p.exp()) ** {self.gamma} * log_p).mean()"
        )
