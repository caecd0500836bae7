"""Forget gradients after an update instead of filling them with zeros: `zero_grad` as it is without an argument."""

from typing import Any

from ._base import Settings, parameters_of, watch

WHEN = "toggle"
STAGE = 20
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    if not view.optimizers:
        return "the script has no optimizer of PyTorch's"
    if not watch(view).zeroed:
        return "the script already sets gradients to None, as PyTorch does unless it is told otherwise"
    return None


class Knob:
    """Stands before `zero_grad` of the script's own optimizers and models; the call itself stays theirs."""

    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._kept: list[tuple[Any, Any]] = []
        self._before: list[tuple[Any, Any]] = []

    def on(self) -> None:
        gradients = [(parameter, parameter.grad) for each in self._view.optimizers for parameter in parameters_of(each)]
        self._kept = [pair for pair in gradients if pair[1] is not None]
        for each in (*self._view.optimizers, *self._view.models):
            self._before.append((each, vars(each).get("zero_grad")))
            vars(each)["zero_grad"] = _forgetting(each.zero_grad)

    def off(self) -> None:
        while self._before:
            each, own = self._before.pop()
            vars(each).pop("zero_grad", None)
            if own is not None:
                vars(each)["zero_grad"] = own
        for parameter, gradient in self._kept:
            if parameter.grad is not gradient:
                _bring_back(parameter, gradient)
        self._kept = []


def _forgetting(zero_grad: Any) -> Any:
    def forgetting(set_to_none: bool = True) -> Any:
        return zero_grad(set_to_none=True)

    return forgetting


def _bring_back(parameter: Any, gradient: Any) -> None:
    """The tensor that held the gradient, with what the script would find in it now."""
    if parameter.grad is None:
        gradient.zero_()
    else:
        gradient.copy_(parameter.grad)
    parameter.grad = gradient
