"""Let batch normalisation follow its batches: `momentum` (0.1 by default) for layers whose own is zero or far from it."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Where a batch norm is constructed."""
    from torch.nn.modules.batchnorm import _NormBase

    momentum = float(settings.get("momentum", 0.1))

    def make(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            self.momentum = momentum

        return __init__

    observer.replacements.replace("move statistics", _NormBase, "__init__", make)
