"""Cut what a model is given from the graph that made it: a state that is carried on ends its history there."""

from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """Around top-level calls with gradients: tensors among the arguments, also in tuples and lists. Losses' inputs are left."""
    import torch
    from torch.nn.modules.loss import _Loss

    def cut(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach() if value.grad_fn is not None else value
        return type(value)(cut(each) for each in value) if type(value) in (tuple, list) else value

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not observer.inside and torch.is_grad_enabled() and not isinstance(model, _Loss):
            args = tuple(cut(each) for each in args)
            kwargs = {name: cut(each) for name, each in kwargs.items()}
        return call(model, *args, **kwargs)

    around_calls(observer, "detach inputs", around)
