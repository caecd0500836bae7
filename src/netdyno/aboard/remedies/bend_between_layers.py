"""Put a ReLU between layers that follow each other directly: what one linear layer or convolution gives to the next."""

import weakref
from typing import Any

from ._base import Settings

LAYERS = ("linear", "conv1d", "conv2d", "conv3d")
# These keep a linear network linear: what they give still counts as a layer's result.
BETWEEN = ("dropout", "batch_norm")


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional. An activation of the author's makes another tensor, or another version of it, and is kept."""
    import torch.nn.functional as F

    given: dict[int, tuple[Any, int]] = {}

    def bare(values: Any) -> bool:
        known = given.get(id(values))
        return known is not None and known[0]() is values and known[1] == values._version

    def keep(values: Any) -> Any:
        if len(given) > 64:
            given.clear()
        given[id(values)] = (weakref.ref(values), values._version)
        return values

    def layer(original: Any) -> Any:
        def bent(values: Any, *args: Any, **kwargs: Any) -> Any:
            return keep(original(values.relu() if bare(values) else values, *args, **kwargs))

        return bent

    def between(original: Any) -> Any:
        def passed(values: Any, *args: Any, **kwargs: Any) -> Any:
            straight = bare(values)
            result = original(values, *args, **kwargs)
            return keep(result) if straight else result

        return passed

    for name in LAYERS:
        observer.replacements.replace(f"bend {name}", F, name, layer)
    for name in BETWEEN:
        observer.replacements.replace(f"bend {name}", F, name, between)
