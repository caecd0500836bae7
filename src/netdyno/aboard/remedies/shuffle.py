"""Draw the samples of training loaders in a new random order each pass; `line` names the loader's construction."""

import os
from typing import Any

from ..frames import user_line
from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Where a DataLoader is constructed without a sampler of the author's own."""

    def change(dataset: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        import sys

        line = user_line(sys._getframe(1))
        wanted = settings.get("line")
        if wanted is not None and (
            line.line != wanted or os.path.basename(line.file) != os.path.basename(str(settings.get("file", line.file)))
        ):
            return arguments
        if arguments.get("sampler") is not None or arguments.get("batch_sampler") is not None:
            return arguments
        return {**arguments, "shuffle": True}

    observer.view.loader_arguments.append(change)
