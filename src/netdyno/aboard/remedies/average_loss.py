"""Begin the backward pass at the mean where the script begins it at many numbers."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.autograd.backward, from one tensor without gradients of its own."""
    import torch

    def make(original: Any) -> Any:
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            many = isinstance(tensors, torch.Tensor) and tensors.numel() > 1 and grad_tensors is None
            return original(tensors.mean() if many else tensors, grad_tensors, *args, **kwargs)

        return backward

    observer.replacements.replace("average loss", torch.autograd, "backward", make)
