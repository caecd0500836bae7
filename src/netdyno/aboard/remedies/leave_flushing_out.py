"""Leave it to the system when what was written reaches the disk: `os.fsync` returns at once."""

import os
from typing import Any

from ._base import Settings


def put_on(observer: Any, settings: Settings) -> None:
    """In os.fsync and os.fdatasync."""
    for name in ("fsync", "fdatasync"):
        observer.replacements.replace(f"leave {name} out", os, name, lambda _: lambda _: None)
