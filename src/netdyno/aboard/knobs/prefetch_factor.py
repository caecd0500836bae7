"""Let each loader worker have more batches, or fewer, ready ahead of time: only before the loaders are built."""

from typing import Any

from ._base import Settings
from ._loader import Arguments, Rebinding, no_loader

WHEN = "start"
STAGE = 5
DEFAULT = 2  # PyTorch's own
FEWEST, MOST = 1, 4  # a queue deeper than four hides no jitter that four does not, and holds memory
EXAMPLES: tuple[dict[str, Any], ...] = ({"factor": 4}, {"factor": 1})


def refuses(view: Any, settings: Settings) -> str | None:
    factor = settings.get("factor", MOST)
    if no_loader(view):
        return no_loader(view)
    working = [loader for loader in view.loaders if loader.num_workers]
    if not working:
        return "only loader workers prefetch, and there are none"
    if not isinstance(factor, int) or not FEWEST <= factor <= MOST:
        return f"a factor of {factor} is outside {FEWEST} to {MOST}"
    if all((loader.prefetch_factor or DEFAULT) == factor for loader in working):
        return f"the script already prefetches {factor} batches per worker"
    return None


class Knob(Rebinding):
    def __init__(self, view: Any, settings: Settings) -> None:
        factor = int(settings.get("factor", MOST))

        def change(dataset: Any, arguments: Arguments) -> Arguments:
            return {**arguments, "prefetch_factor": factor} if arguments.get("num_workers") else arguments

        super().__init__(view, change)
