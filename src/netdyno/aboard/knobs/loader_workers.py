"""Make batches in worker processes of the loader, ahead of time: only before the loaders are built."""

from typing import Any

from ._base import Settings
from ._loader import Arguments, Rebinding, bound_to_process, no_loader, with_workers

WHEN = "start"
STAGE = 4
EXAMPLES: tuple[dict[str, Any], ...] = ({"workers": 2}, {"workers": 0})


def refuses(view: Any, settings: Settings) -> str | None:
    workers = settings.get("workers", 2)
    if not isinstance(workers, int) or workers < 0:
        return f"`{workers}` is not a number of workers"
    if no_loader(view):
        return no_loader(view)
    if all(loader.num_workers == workers for loader in view.loaders):
        return f"the script already uses {workers} loader worker{'' if workers == 1 else 's'}"
    reasons = [bound_to_process(loader.dataset) for loader in view.loaders] if workers else [None]
    return reasons[0] if all(reasons) else None


class Knob(Rebinding):
    def __init__(self, view: Any, settings: Settings) -> None:
        workers = int(settings.get("workers", 2))

        def change(dataset: Any, arguments: Arguments) -> Arguments:
            return arguments if workers and bound_to_process(dataset) else with_workers(arguments, workers)

        super().__init__(view, change)
