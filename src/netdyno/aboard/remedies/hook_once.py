"""Take a module's older hooks of the same line away when that line registers one again."""

from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In register_forward_hook and its like."""
    import sys
    import weakref

    import torch

    from ..frames import NOWHERE, user_line

    known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()

    def make(original: Any) -> Any:
        def register(self: Any, *args: Any, **kwargs: Any) -> Any:
            handle = original(self, *args, **kwargs)
            here = user_line(sys._getframe(1))
            if here != NOWHERE:
                mine = known.setdefault(self, {})
                before = mine.get((original.__name__, here))
                if before is not None:
                    before.remove()
                mine[original.__name__, here] = handle
            return handle

        return register

    for name in ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"):
        observer.replacements.replace(f"hook once {name}", torch.nn.Module, name, make)
