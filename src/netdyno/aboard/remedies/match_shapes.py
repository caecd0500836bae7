"""Give a loss's target the shape of its input where both hold the same number of values: (N,) against (N, 1)."""

from functools import partial
from typing import Any

from ..asides import LOSSES
from ._base import Settings

# These take class numbers or several inputs: another shape of the target is right there.
OTHERS = (
    "cross_entropy",
    "nll_loss",
    "ctc_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
    "cosine_embedding_loss",
)


def put_on(observer: Any, settings: Settings) -> None:
    """In every elementwise loss of torch.nn.functional, and in differences of tensors of those shapes."""
    import torch
    import torch.nn.functional as F

    for name in LOSSES:
        if name not in OTHERS:
            observer.replacements.replace(f"match {name}", F, name, _matched)
    for name in ("__sub__", "sub"):
        observer.replacements.replace(f"match {name}", torch.Tensor, name, partial(_matched, column=True))


def _matched(original: Any, *, column: bool = False) -> Any:
    import torch

    def matched(first: Any, *args: Any, **kwargs: Any) -> Any:
        second: Any = args[0] if args else kwargs.get("target")
        tensors = isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
        if not tensors or first.shape == second.shape or first.numel() != second.numel() or first.numel() < 2:
            return original(first, *args, **kwargs)
        # A difference is a loss only between a column and a row of the same length.
        if not column or {first.dim(), second.dim()} == {1, 2}:
            second = second.reshape(first.shape)
            args, kwargs = ((second, *args[1:]), kwargs) if args else (args, {**kwargs, "target": second})
        return original(first, *args, **kwargs)

    return matched
