"""Standardise what a sigmoid or a tanh gives to the next layer: signals and gradients keep their size in depth."""

import weakref
from typing import Any

from ._base import Settings, functions_named


def put_on(observer: Any, settings: Settings) -> None:
    """At the input of linear layers, where it is exactly what a sigmoid or tanh made: outputs and gates are left alone."""
    import torch.nn.functional as F

    made: dict[int, Any] = {}

    def bend(original: Any) -> Any:
        def bent(values: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(values, *args, **kwargs)
            if len(made) > 64:
                made.clear()
            made[id(result)] = weakref.ref(result)
            return result

        return bent

    def layer(original: Any) -> Any:
        def linear(values: Any, *args: Any, **kwargs: Any) -> Any:
            known = made.get(id(values))
            if known is not None and known() is values and values.shape[-1] > 1:
                values = F.layer_norm(values, values.shape[-1:])
            return original(values, *args, **kwargs)

        return linear

    for function in ("sigmoid", "tanh"):
        for owner, name in functions_named(function):
            observer.replacements.replace(f"norm after {name}", owner, name, bend)
    observer.replacements.replace("norm before linear", F, "linear", layer)
