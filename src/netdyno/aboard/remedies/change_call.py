"""Call a function, `call`, with another value of one argument where the user's line calls it: `dim=1`, `reduction="mean"` …"""

from functools import partial
from typing import Any

from ._base import Settings, at_place, functions_named

OURS = ("call", "file", "line")


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.nn.functional, torch and Tensor. `file` and `line` say where; every other setting is an argument."""
    for owner, name in functions_named(str(settings["call"])):
        observer.replacements.replace(f"change {name}", owner, name, partial(_changed, settings))


def _changed(settings: Settings, original: Any) -> Any:
    wanted = {name: value for name, value in settings.items() if name not in OURS}

    def changed(*args: Any, **kwargs: Any) -> Any:
        if not at_place(settings):
            return original(*args, **kwargs)
        try:
            return original(*args, **{**kwargs, **wanted})
        except TypeError:  # the argument was given by its position
            return original(args[0], *args[1 + len(wanted) :], **{**kwargs, **wanted})

    return changed
