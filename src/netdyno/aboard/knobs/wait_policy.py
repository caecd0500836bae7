"""Let threads that wait for each other sleep instead of spin: the launcher sets the environment, nothing is done here."""

import os
from typing import Any

from ._base import Settings, device_of

WHEN = "start"
STAGE = 50
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    import torch

    if device_of(view) != "cpu":
        return f"operators run on the device `{device_of(view)}`; waiting threads are the CPU's"
    if torch.get_num_threads() == 1:
        return "the script uses one thread, so no thread waits for another"
    if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE":
        return "the environment already says `OMP_WAIT_POLICY=PASSIVE`"
    return None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        pass

    def on(self) -> None:
        """Nothing: the variables were set before Python started."""

    def off(self) -> None:
        """Nothing: they end with the process."""
