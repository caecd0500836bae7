"""What long work says about itself. It never prints; who listens decides how it looks."""

from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    """One thing being done: `done` of `total` units, or of an unknown total."""

    doing: str
    done: float = 0.0
    total: float | None = None


Listener = Callable[[Event], None]


def silent(_: Event) -> None:
    """Listens and does nothing."""
