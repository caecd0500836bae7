"""Learn nothing from a batch without a target that counts, instead of dividing by none."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In cross_entropy and nll_loss of torch.nn.functional: the loss of such a batch is 0, with gradients of 0."""
    import torch
    import torch.nn.functional as F

    def make(original: Any) -> Any:
        def loss(output: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            left_out = kwargs.get("ignore_index", -100)
            if isinstance(target, torch.Tensor) and not target.is_floating_point() and bool((target == left_out).all()):
                return (output * 0.0).sum()
            return original(output, target, *args, **kwargs)

        return loss

    for name in ("cross_entropy", "nll_loss"):
        observer.replacements.replace(f"skip in {name}", F, name, make)
