"""Put batches into page-locked memory: only before the loaders are built. The script's own copy stays as it is."""

from typing import Any

from ._base import Settings, device_of
from ._loader import Arguments, Rebinding, no_loader

WHEN = "start"
STAGE = 6
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if device_of(view) == "cpu":
        return "the model runs on the CPU: batches are copied to no device"
    if no_loader(view):
        return no_loader(view)
    return "the script already pins its batches" if all(loader.pin_memory for loader in view.loaders) else None


class Knob(Rebinding):
    def __init__(self, view: Any, settings: Settings) -> None:
        super().__init__(view, _pinned)


def _pinned(dataset: Any, arguments: Arguments) -> Arguments:
    return {**arguments, "pin_memory": True}
