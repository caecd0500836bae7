"""Wires that break when a run goes wrong."""

from typing import Any

from netdyno.monitor.gauges._base import Gauge


class Tripwires(Gauge):
    """Looks at the loss and the gradients before each step."""

    def __init__(self, *given: Any, watch: Any) -> None:
        super().__init__(*given)
        self.run = watch

    def evaluated(self, values: dict[str, float]) -> None:
        """Results of an evaluation."""
