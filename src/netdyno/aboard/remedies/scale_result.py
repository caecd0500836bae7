"""Multiply what a function, `call`, gives by `factor` where the user's line calls it: a division that was forgotten."""

from functools import partial
from typing import Any

from ._base import Settings, at_place, functions_named


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional, torch and Tensor. `file` and `line` say where; without them everywhere."""
    for owner, name in functions_named(str(settings["call"])):
        observer.replacements.replace(f"scale {name}", owner, name, partial(_scaled, settings))


def _scaled(settings: Settings, original: Any) -> Any:
    factor = float(settings["factor"])

    def scaled(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return result * factor if at_place(settings) else result

    return scaled
