"""Construct optimizers with other arguments: `momentum`, `eps`, `weight_decay`, `betas` … as the settings say."""

import inspect
from typing import Any

from ._base import Settings, arguments_of_optimizers


def put_on(observer: Any, settings: Settings) -> None:
    """Where an optimizer is constructed; what a class does not take is left out, also in its groups."""

    def change(kind: type, arguments: dict[str, Any]) -> dict[str, Any]:
        taken = inspect.signature(kind.__init__).parameters  # type: ignore[misc]
        wanted = {name: value for name, value in settings.items() if name in taken}
        groups = list(arguments["params"])
        if groups and isinstance(groups[0], dict):
            groups = [{**group, **{name: wanted[name] for name in wanted if name in group}} for group in groups]
        return {**arguments, "params": groups, **wanted}

    arguments_of_optimizers(observer, change)
