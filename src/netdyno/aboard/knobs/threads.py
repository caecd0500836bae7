"""Use another number of threads inside operators, from one step to the next."""

from typing import Any

from ._base import Settings, cores, device_of, form_the_team

WHEN = "toggle"
STAGE = 50
EARLY = True
EXAMPLES: tuple[dict[str, Any], ...] = ({"threads": 2}, {"threads": 1})


def refuses(view: Any, settings: Settings) -> str | None:
    import torch

    wanted = settings.get("threads", 1)
    if not isinstance(wanted, int) or wanted < 1:
        return f"`{wanted}` is not a number of threads"
    if wanted > cores():
        return f"this process may use {cores()} cores, fewer than {wanted} threads"
    if device_of(view) != "cpu":
        return f"operators run on the device `{device_of(view)}`; threads inside operators are the CPU's"
    if wanted == torch.get_num_threads():
        return f"the script already uses {wanted} thread{'s' if wanted > 1 else ''}"
    return None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._wanted = int(settings.get("threads", 1))
        self._before = 0

    def on(self) -> None:
        import torch

        self._before = torch.get_num_threads()
        torch.set_num_threads(self._wanted)
        form_the_team()

    def off(self) -> None:
        import torch

        torch.set_num_threads(self._before)
        form_the_team()
