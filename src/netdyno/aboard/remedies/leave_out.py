"""Leave out a function, `call`, where the user's line calls it: its first argument comes back as it is."""

from functools import partial
from typing import Any

from ._base import Settings, at_place, functions_named


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional, torch and Tensor. `file` and `line` say where; without them everywhere."""
    for owner, name in functions_named(str(settings["call"])):
        observer.replacements.replace(f"leave out {name}", owner, name, partial(_left_out, settings))


def _left_out(settings: Settings, original: Any) -> Any:
    def left_out(*args: Any, **kwargs: Any) -> Any:
        if args and at_place(settings):
            return args[0]
        return original(*args, **kwargs)

    return left_out
