"""Keep the last, smaller batch of every loader: no samples are dropped."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Where a DataLoader is constructed."""
    observer.view.loader_arguments.append(
        lambda _, arguments: {**arguments, "drop_last": False} if arguments.get("drop_last") else arguments
    )
