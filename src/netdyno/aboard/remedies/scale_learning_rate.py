"""Train with `factor` times the learning rate, of every group; schedules start from there."""

import inspect
from typing import Any

from ._base import Settings, arguments_of_optimizers


def put_on(observer: Any, settings: Settings) -> None:
    """Where an optimizer is constructed."""
    factor = float(settings.get("factor", 0.1))

    def change(kind: type, arguments: dict[str, Any]) -> dict[str, Any]:
        default = inspect.signature(kind.__init__).parameters.get("lr")  # type: ignore[misc]
        rate = arguments.get("lr", default.default if default is not None else None)
        groups = list(arguments["params"])
        if groups and isinstance(groups[0], dict):
            groups = [{**group, "lr": group["lr"] * factor} if "lr" in group else group for group in groups]
        return {**arguments, "params": groups, **({"lr": rate * factor} if isinstance(rate, int | float) else {})}

    arguments_of_optimizers(observer, change)
