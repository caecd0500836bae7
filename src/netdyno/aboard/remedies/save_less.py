"""Write a file with torch.save only each `every` times the script asks for it; the first time always."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In torch.save, for the saves of one line together."""
    import sys

    import torch

    from ..frames import user_line

    every = int(settings.get("every", 50))
    times: dict[Any, int] = {}

    def make(original: Any) -> Any:
        def save(*args: Any, **kwargs: Any) -> Any:
            here = user_line(sys._getframe(1))
            times[here] = times.get(here, 0) + 1
            return original(*args, **kwargs) if times[here] % every == 1 or every == 1 else None

        return save

    observer.replacements.replace("save less", torch, "save", make)
