"""Keep images channels-last: the convolutions' weights in place, with gradients and optimizer state, and 4-D inputs."""

from typing import Any, NamedTuple

from ._base import Settings, drop, watch

WHEN = "toggle"
STAGE = 10
EXAMPLES: tuple[dict[str, Any], ...] = ({},)


def refuses(view: Any, settings: Settings) -> str | None:
    import torch

    weights = _weights(view)
    if not weights:
        return "the model has no 2-D convolution"
    # A 1x1 kernel and one channel are contiguous in both orders.
    ordered = [weight for weight in weights if weight.shape[2] * weight.shape[3] > 1 and weight.shape[1] > 1]
    if ordered and all(weight.is_contiguous(memory_format=torch.channels_last) for weight in ordered):
        return "the script already keeps the weights of its 2-D convolutions channels-last"
    seen = watch(view)
    if seen.trained and 4 not in seen.dimensions:
        sizes = ", ".join(map(str, sorted(seen.dimensions))) or "none"
        return f"no tensor that the model was given has 4 dimensions (they have {sizes})"
    return None


def _weights(view: Any) -> list[Any]:
    """The weights of 2-D convolutions, each once."""
    from torch import nn

    convolutions = (nn.Conv2d, nn.ConvTranspose2d)
    found = {
        id(module.weight): module.weight
        for model in view.models
        for module in model.modules()
        if isinstance(module, convolutions)
    }
    return [weight for weight in found.values() if not nn.parameter.is_lazy(weight)]


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        self._view = view
        self._kept: list[_Before] = []

    def on(self) -> None:
        self._kept = [_moved(weight, self._view.optimizers) for weight in _weights(self._view)]
        self._view.inputs.append(_inputs)

    def off(self) -> None:
        drop(self._view.inputs, _inputs)
        while self._kept:
            _put_back(self._kept.pop(), self._view.optimizers)


def _inputs(args: Any, kwargs: Any) -> tuple[Any, Any]:
    import torch

    mapped = torch.utils._pytree.tree_map_only(torch.Tensor, _laid, (args, kwargs))
    return mapped[0], mapped[1]


class _Before(NamedTuple):
    """A weight and what belonged to it. `state` has, per optimizer that knows it, the tensors of its shape."""

    weight: Any
    data: Any
    grad: Any
    state: dict[int, dict[str, Any]]


def _moved(weight: Any, optimizers: list[Any]) -> _Before:
    """Puts a weight and all that belongs to it into channels-last order; gives what was there.

    Gradient and optimizer state must follow: fused optimizers walk through memory, not through indices, and
    two orders in one update mix up the elements without a word.
    """
    before = _Before(weight, weight.data, weight.grad, {id(each): _like(weight, each) for each in optimizers})
    weight.data = _laid(weight.data)
    if before.grad is not None:
        weight.grad = _laid(before.grad)
    for optimizer in optimizers:
        for name, value in before.state[id(optimizer)].items():
            optimizer.state[weight][name] = _laid(value)
    return before


def _put_back(before: _Before, optimizers: list[Any]) -> None:
    weight = before.weight
    before.data.copy_(weight.data)
    weight.grad, gradient = None, weight.grad  # a gradient may not be there while the order of its weight changes
    weight.data = before.data
    if gradient is not None:
        weight.grad = _into(before.grad, gradient)
    for optimizer in optimizers:
        kept = before.state.get(id(optimizer), {})
        for name, value in _like(weight, optimizer).items():
            optimizer.state[weight][name] = _into(kept.get(name), value)


def _like(weight: Any, optimizer: Any) -> dict[str, Any]:
    """The optimizer state of a weight that has the weight's shape."""
    import torch

    state = optimizer.state.get(weight, {})
    return {
        name: value for name, value in state.items() if isinstance(value, torch.Tensor) and value.shape == weight.shape
    }


def _into(place: Any, value: Any) -> Any:
    """The value in the tensor it was in before, or in the usual order when it is new."""
    import torch

    with torch.no_grad():
        return value.contiguous() if place is None else place.copy_(value)


def _laid(tensor: Any) -> Any:
    import torch

    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
