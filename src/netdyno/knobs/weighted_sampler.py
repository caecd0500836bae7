"""Draw samples of rare classes more often.

Helps:      metrics in which every class counts alike; batches in which a rare class would hardly ever occur.
Costs:      rare samples come again and again and are learned by heart; some common ones are not seen in an epoch.
Not this:   together with class weights; in validation, whose mix must stay that of use.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from torch.utils.data import WeightedRandomSampler

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._losses import UNEVEN, ClassLoss, class_weights, imbalance, labels, no_labels
from netdyno.records.study import Stage


@dataclass(frozen=True, slots=True)
class WeightedSampler:
    """A class is drawn with its count to the power of 1 - `power`: 1 draws all classes alike."""

    power: float = 1.0

    stage: ClassVar[Stage] = "data"
    reason: ClassVar[str] = "changes how often each class is seen, and with it what the model expects"
    asks: ClassVar[str] = "how often should rare classes be drawn?"
    effort_min: ClassVar[float] = 3.0
    order: ClassVar[int] = 31

    def refuses(self, setup: Setup) -> str | None:
        why = no_labels(setup)
        if why is not None:
            return why
        if isinstance(setup.loss, ClassLoss) and setup.loss.weight is not None:
            return "weights of the classes in the loss make up for it already"
        if setup.workload.loader.get("sampler") is not None:
            return "the workload declares a sampler of its own"
        times = imbalance(setup)
        return None if times >= UNEVEN else f"the commonest class is only {times:.2f} times as common as the rarest"

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (WeightedSampler(1.0), WeightedSampler(0.5))

    def turned(self, setup: Setup) -> Setup:
        drawn = labels(setup)
        assert drawn is not None
        weights = class_weights(setup, self.power)[drawn].double().tolist()
        return replace(setup, sampler=WeightedRandomSampler(weights, len(weights)))

    def code(self) -> str:
        return (
            f"weight = torch.bincount(targets).clamp(min=1).double() ** -{self.power}\n"
            "sampler = torch.utils.data.WeightedRandomSampler(weight[targets], len(targets))\n"
            "loader = torch.utils.data.DataLoader(train, batch_size=batch_size, sampler=sampler)"
        )
