"""Step a learning-rate schedule once in `batches` calls: a call per batch becomes one per epoch."""

import inspect
from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In every scheduler's `step`, but for the one its constructor makes."""
    from torch.optim import lr_scheduler

    every = int(settings.get("batches", 1))
    calls: dict[int, int] = {}

    def make(original: Any) -> Any:
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if getattr(self, "_is_initial", False):
                return original(self, *args, **kwargs)
            calls[id(self)] = calls.get(id(self), 0) + 1
            return original(self, *args, **kwargs) if calls[id(self)] % every == 0 else None

        return step

    for kind in vars(lr_scheduler).values():
        if inspect.isclass(kind) and "step" in vars(kind):
            observer.replacements.replace("schedule", kind, "step", make)
