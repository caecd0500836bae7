"""Exchange axes where a view only renames them: the shape that a `view` or `reshape` asked for, by moving the axes there."""

from functools import partial
from typing import Any

from ._base import Settings, at_place


def put_on(observer: Any, settings: Settings) -> None:
    """In Tensor.view and Tensor.reshape of the user's line, where all lengths differ and the order is the only change."""
    import torch

    for name in ("view", "reshape"):
        observer.replacements.replace(f"permute instead of {name}", torch.Tensor, name, partial(_permuted, settings))


def _permuted(settings: Settings, original: Any) -> Any:
    def permuted(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        before, after = getattr(self, "shape", ()), getattr(result, "shape", ())
        if not at_place(settings) or before == after or sorted(before) != sorted(after):
            return result
        axes: list[int] = []
        for length in after:  # of axes of one length the first goes first
            axes.append(next(axis for axis, other in enumerate(before) if other == length and axis not in axes))
        return self.permute(axes)

    return permuted
