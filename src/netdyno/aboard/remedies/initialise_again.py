"""Give the weights the start that their modules draw by default, once, before the first training step."""

from typing import Any

from ._base import Settings, around_calls


def put_on(observer: Any, settings: Settings) -> None:
    """At the first top-level call with gradients of each model."""
    import torch

    done: set[int] = set()

    def around(call: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.is_grad_enabled() and not observer.inside and id(model) not in done and not observer.updates:
            done.add(id(model))
            for module in model.modules():
                reset = getattr(module, "reset_parameters", None)
                if callable(reset):
                    reset()
        return call(model, *args, **kwargs)

    around_calls(observer, "initialise again", around)
