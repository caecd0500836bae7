"""Keep the loader's workers alive from one epoch to the next: only before the loaders are built."""

from typing import Any

from ._base import Settings
from ._loader import Arguments, Rebinding, no_loader

WHEN = "start"
STAGE = 5
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if no_loader(view):
        return no_loader(view)
    working = [loader for loader in view.loaders if loader.num_workers]
    if not working:
        return "there are no loader workers to keep"
    return "the script already keeps its workers" if all(each.persistent_workers for each in working) else None


class Knob(Rebinding):
    def __init__(self, view: Any, settings: Settings) -> None:
        super().__init__(view, _kept)


def _kept(dataset: Any, arguments: Arguments) -> Arguments:
    return {**arguments, "persistent_workers": True} if arguments.get("num_workers") else arguments
