"""Train every group of an optimizer with the largest learning rate among its groups."""

from typing import Any

from ._base import Settings, arguments_of_optimizers


def put_on(observer: Any, settings: Settings) -> None:
    """Where an optimizer is constructed of groups."""

    def change(kind: type, arguments: dict[str, Any]) -> dict[str, Any]:
        groups = list(arguments["params"])
        if not groups or not isinstance(groups[0], dict):
            return {**arguments, "params": groups}
        given = [group["lr"] for group in groups if "lr" in group]
        if "lr" in arguments:
            given.append(arguments["lr"])
        most = max(given, default=None)
        if most is None:
            return {**arguments, "params": groups}
        return {**arguments, "params": [{**group, "lr": most} for group in groups]}

    arguments_of_optimizers(observer, change)
