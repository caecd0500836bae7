"""Take the loss scale out of gradients before they are clipped, as `scaler.unscale_(optimizer)` would."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In clip_grad_norm_ and clip_grad_value_: by the scale of the GradScaler that scaled the last loss."""
    import torch
    from torch.amp.grad_scaler import GradScaler

    scaler: list[Any] = []
    optimizers: list[Any] = []

    def construct(original: Any) -> Any:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            original(self, *args, **kwargs)
            optimizers.append(self)

        return __init__

    def scale(original: Any) -> Any:
        def scale(self: Any, *args: Any, **kwargs: Any) -> Any:
            scaler[:] = [self]
            return original(self, *args, **kwargs)

        return scale

    def clip(original: Any) -> Any:
        def clipped(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            mine = {id(one) for one in parameters}
            for optimizer in optimizers if scaler else ():
                if any(id(one) in mine for group in optimizer.param_groups for one in group["params"]):
                    try:
                        scaler[0].unscale_(optimizer)
                    except RuntimeError:  # it was done since the last update
                        continue
            return original(parameters, *args, **kwargs)

        return clipped

    observer.replacements.replace("unscale", torch.optim.Optimizer, "__init__", construct)
    observer.replacements.replace("unscale", GradScaler, "scale", scale)
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        for module in (torch.nn.utils.clip_grad, torch.nn.utils):
            observer.replacements.replace("unscale", module, name, clip)
