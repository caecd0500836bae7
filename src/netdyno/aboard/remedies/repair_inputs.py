"""Put 0 in the place of what is no number in a model's inputs, and teach nothing where a target is none."""

from typing import Any

from ._base import Settings

LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls, for their floating-point tensors; targets of elementwise losses become the model's own answer."""
    import torch
    import torch.nn.functional as F

    def whole(values: Any) -> Any:
        if isinstance(values, torch.Tensor) and values.is_floating_point() and not values.requires_grad:
            return torch.nan_to_num(values, 0.0, 0.0, 0.0)
        return values

    def call(original: Any) -> Any:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not observer.inside:
                args = tuple(whole(each) for each in args)
                kwargs = {name: whole(each) for name, each in kwargs.items()}
            return original(self, *args, **kwargs)

        return __call__

    def loss(original: Any) -> Any:
        def repaired(output: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if target.is_floating_point() and target.shape == output.shape:
                target = torch.where(target.isfinite(), target, output.detach())
            return original(output, target, *args, **kwargs)

        return repaired

    observer.replacements.replace("repair inputs", torch.nn.Module, "__call__", call)
    for name in LOSSES:
        observer.replacements.replace(f"repair {name}", F, name, loss)
