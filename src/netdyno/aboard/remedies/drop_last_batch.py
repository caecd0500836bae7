"""Drop the last, smaller batch of training loaders: none is left with a single sample."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Where a DataLoader that shuffles is constructed with batches of a fixed size."""

    def change(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        trains = arguments.get("shuffle") and arguments.get("batch_sampler") is None
        return {**arguments, "drop_last": True} if trains and arguments.get("batch_size", 1) else arguments

    observer.view.loader_arguments.append(change)
