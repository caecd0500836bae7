"""Update all parameters list by list instead of one by one: the flags of the script's own optimizers."""

from typing import Any

from ._base import Settings, parameters_of

WHEN = "toggle"
STAGE = 20
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if not view.optimizers:
        return "the script has no optimizer of PyTorch's"
    reasons = [_unfit(optimizer) for optimizer in view.optimizers]
    if all(reasons):
        return reasons[0]
    chosen = {"fused", "foreach"} & set(view.explicit.get("optimizer", ()))
    if chosen and not settings.get("explicit"):
        return f"the script chooses `{min(chosen)}` for its optimizer itself"
    return None


def _unfit(optimizer: Any) -> str | None:
    import torch
    from torch.optim.optimizer import _default_to_fused_or_foreach

    name = type(optimizer).__name__
    groups = optimizer.param_groups
    if any("foreach" not in group for group in groups):
        return f"`{name}` knows no `foreach`"
    if any(group["foreach"] for group in groups):
        return f"the script already lets `{name}` update list by list"
    if any(group.get("fused") for group in groups):
        return f"`{name}` is fused, which is quicker than list by list"
    if any(group.get("differentiable") for group in groups):
        return f"`{name}` is differentiable, and `foreach` is not"
    if any(isinstance(group["lr"], torch.Tensor) and not group.get("capturable") for group in groups):
        return f"the learning rate of `{name}` is a tensor, which `foreach` does not take"
    held = list(parameters_of(optimizer))
    by_default = bool(_default_to_fused_or_foreach(held, differentiable=False)[1])
    if by_default and all(group["foreach"] is None for group in groups):
        return f"on `{held[0].device.type}` PyTorch already updates list by list unless it is told otherwise"
    return None


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._kept: list[tuple[Any, Any]] = []

    def on(self) -> None:
        for optimizer in self._view.optimizers:
            if _unfit(optimizer) is None:
                for group in optimizer.param_groups:
                    self._kept.append((group, group["foreach"]))
                    group["foreach"] = True

    def off(self) -> None:
        while self._kept:
            group, foreach = self._kept.pop()
            group["foreach"] = foreach
