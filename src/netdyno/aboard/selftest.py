"""Whether each patch fires: tried once at the start, on things that compute nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .observe import Observer


def points(observer: "Observer") -> dict[str, dict[str, Any]]:
    """Every patch point with its answer. What is missing degrades to line samples."""
    return {name: {"ok": False, "why": why} for name, why in observer._patches.missing.items()}
