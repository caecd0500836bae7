"""Update each parameter in one pass over memory: the flags of the script's own optimizers, their state carried over."""

from typing import Any

from ._base import Settings, parameters_of

WHEN = "toggle"
STAGE = 21  # after foreach, which it switches off
MARKS = ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if not view.optimizers:
        return "the script has no optimizer of PyTorch's"
    chosen = {"fused", "foreach"} & set(view.explicit.get("optimizer", ()))
    reasons = [_unfit(view, optimizer) for optimizer in view.optimizers]
    if all(reasons):
        return reasons[0]
    if chosen and not settings.get("explicit"):
        return f"the script chooses `{min(chosen)}` for its optimizer itself"
    return None


def _unfit(view: Any, optimizer: Any) -> str | None:
    import torch
    from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

    name = type(optimizer).__name__
    fused = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)
    # Exactly these: a subclass may override what the flag would bypass.
    if type(optimizer) not in fused:
        return f"`{name}` has no fused form; {', '.join(kind.__name__ for kind in fused)} have"
    if all(group["fused"] for group in optimizer.param_groups):
        return f"the script already uses the fused form of `{name}`"
    if any(group.get("differentiable") or group.get("capturable") for group in optimizer.param_groups):
        return f"`{name}` is differentiable or capturable, and its fused form is for neither"
    supported = ["cpu"] if type(optimizer) is torch.optim.Adagrad else _get_fused_kernels_supported_devices()
    for parameter in parameters_of(optimizer):
        if parameter.device.type not in supported or not parameter.is_floating_point():
            return f"a parameter is `{parameter.dtype}` on `{parameter.device}`, which has no fused form"
        if _in_another_order(parameter, optimizer):
            return "optimizer state lies in another memory order than its parameter; the fused form would mix them up"
        if parameter.grad is not None and parameter.grad.is_sparse:
            return "a gradient is sparse, which the fused form does not take"
    if any(getattr(module, "sparse", False) is True for model in view.models for module in model.modules()):
        return "an embedding gives sparse gradients, which the fused form does not take"
    return None


def _in_another_order(parameter: Any, optimizer: Any) -> bool:
    import torch

    return any(
        isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride()
        for value in optimizer.state.get(parameter, {}).values()
    )


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._changed: list[_Fused] = []

    def on(self) -> None:
        fitting = [optimizer for optimizer in self._view.optimizers if _unfit(self._view, optimizer) is None]
        for optimizer in fitting:
            self._changed.append(_Fused(optimizer))

    def off(self) -> None:
        while self._changed:
            self._changed.pop().undo()


class _Fused:
    """One optimizer in its fused form, and what it was before."""

    def __init__(self, optimizer: Any) -> None:
        import torch

        self._optimizer = optimizer
        self._flags = [(group, group["fused"], group["foreach"]) for group in optimizer.param_groups]
        self._marks = {name: vars(optimizer)[name] for name in MARKS if name in vars(optimizer)}
        self._counters = _counters(optimizer)
        for group, _, _ in self._flags:
            group["fused"], group["foreach"] = True, None
        for name in MARKS:
            setattr(optimizer, name, True)
        # Fused kernels want the counter as float32, beside the parameter.
        for parameter, counter in self._counters.items():
            optimizer.state[parameter]["step"] = counter.to(parameter.device, torch.float32)

    def undo(self) -> None:
        for group, fused, foreach in self._flags:
            group["fused"], group["foreach"] = fused, foreach
        for name in MARKS:
            vars(self._optimizer).pop(name, None)
        vars(self._optimizer).update(self._marks)
        for parameter, counter in _counters(self._optimizer).items():
            kept = self._counters.get(parameter)
            self._optimizer.state[parameter]["step"] = _as_plain(counter) if kept is None else kept.copy_(counter)


def _counters(optimizer: Any) -> dict[Any, Any]:
    """Each parameter's step counter, where there is one."""
    import torch

    return {
        parameter: state["step"]
        for parameter, state in optimizer.state.items()
        if isinstance(state.get("step"), torch.Tensor)
    }


def _as_plain(counter: Any) -> Any:
    """A counter that was made meanwhile, as the plain form would have made it."""
    import torch

    wide = torch.get_default_dtype() == torch.float64
    return counter.to("cpu", torch.float64 if wide else torch.float32)
