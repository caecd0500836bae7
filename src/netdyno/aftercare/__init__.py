"""After the release: statistics renewed, drift watched, odd inputs noticed, bad cases learned, each gated and with undo."""

from netdyno.aftercare._reference import Reference

__all__ = ["Reference"]
