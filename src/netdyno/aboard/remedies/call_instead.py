"""Call another function where the script calls `call`: `instead`, with the first argument alone."""

from functools import partial
from typing import Any

from ._base import Settings, at_place, functions_named


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional, torch and Tensor. `file` and `line` say where; without them everywhere."""
    import torch

    instead = getattr(torch, str(settings["instead"]))
    for owner, name in functions_named(str(settings["call"])):
        observer.replacements.replace(f"call instead of {name}", owner, name, partial(_other, settings, instead))


def _other(settings: Settings, instead: Any, original: Any) -> Any:
    def other(*args: Any, **kwargs: Any) -> Any:
        return instead(args[0]) if args and at_place(settings) else original(*args, **kwargs)

    return other
