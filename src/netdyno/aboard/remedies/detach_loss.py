"""Cut a loss from its graph once its backward pass is over: whoever keeps it keeps a number."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """After torch.autograd.backward, for the scalars it began at, unless the graph is to be kept."""
    import torch

    def make(original: Any) -> Any:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(tensors, *args, **kwargs)
            for one in (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors):
                if one.numel() == 1 and not one.is_leaf and not one._is_view() and not kwargs.get("retain_graph"):
                    one.detach_()
            return result

        return backward

    observer.replacements.replace("detach loss", torch.autograd, "backward", make)
