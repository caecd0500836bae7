"""Train on the negative of the loss: its sign was flipped."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """Before each backward pass from one scalar."""
    import torch

    def make(original: Any) -> Any:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            flipped = -tensors if isinstance(tensors, torch.Tensor) else [-one for one in tensors]
            return original(flipped, *args, **kwargs)

        return backward

    observer.replacements.replace("negate loss", torch.autograd, "backward", make)
