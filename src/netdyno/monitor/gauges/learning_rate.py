"""The learning rate of each parameter group, as the steps meet it.

Shows:     the schedule as it really runs: warm-up, decay, restarts; a scheduler that is never stepped is a flat line.
Costs:     one comparison per group and step.
Not seen:  changes of less than half a per cent, until they add up or a look comes by.
"""

from functools import partial
from typing import Any, ClassVar

from netdyno.monitor.gauges._base import Gauge, Told

# A change that no line on a screen shows; a cosine of 100 000 steps is some thousand points with it.
NOTABLE = 0.005
MOST_GROUPS = 16


class LearningRate(Gauge):
    """Tells a rate when it has changed, and at each look."""

    series: ClassVar[dict[str, Told]] = {
        "learning_rate/*": Told("", "learning rate of a parameter group (its number, or its name where it has one)"),
    }

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.last: dict[tuple[int, int], float] = {}

    def every_stepped(self, optimizer: Any) -> None:
        """Rates that have changed."""
        for number, group in enumerate(optimizer.param_groups):
            rate = group.get("lr")
            if type(rate) is not float:
                continue  # a tensor's rate is asked for at looks
            last = self.last.get((id(optimizer), number))
            if last is None or abs(rate - last) > NOTABLE * abs(last):
                self._told(optimizer, number, group, rate, self.at)
            if number + 1 >= MOST_GROUPS:
                break

    def stepped(self, optimizer: Any) -> None:
        """All rates."""
        for number, group in enumerate(optimizer.param_groups[:MOST_GROUPS]):
            rate = group.get("lr")
            if hasattr(rate, "device"):
                self.later(rate.detach().reshape(1), partial(self._arrived, optimizer, number, group))
            elif rate is not None and self.last.get((id(optimizer), number)) != rate:
                self._told(optimizer, number, group, float(rate), self.at)

    def _arrived(self, optimizer: Any, number: int, group: dict[str, Any], rate: Any, at: int) -> None:
        self._told(optimizer, number, group, float(rate[0]), at)

    def _told(self, optimizer: Any, number: int, group: dict[str, Any], rate: float, at: int) -> None:
        if len(self.last) < 64 * MOST_GROUPS:  # scripts that make an optimizer per fold
            self.last[id(optimizer), number] = rate
        self.tell(f"learning_rate/{group.get('name', number)}{self.mark(optimizer)}", rate, at)


GAUGE = LearningRate
