"""Free each graph with its backward pass, whatever `retain_graph` says."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.autograd.backward, which Tensor.backward calls too."""
    import torch

    def make(original: Any) -> Any:
        def backward(
            tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, *args: Any, **kwargs: Any
        ) -> Any:
            return original(tensors, grad_tensors, None, *args, **kwargs)

        return backward

    observer.replacements.replace("free graphs", torch.autograd, "backward", make)
