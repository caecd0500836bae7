"""Keep freed memory in the process: the launcher sets the environment, nothing is done here."""

import os
import platform
from typing import Any

from ._base import Settings, device_of

WHEN = "start"
STAGE = 50
OTHER_ALLOCATORS = ("jemalloc", "tcmalloc", "mimalloc")
EXAMPLES: tuple[dict[str, Any], ...] = ({}, {"huge_pages": True})


def refuses(view: Any, settings: Settings) -> str | None:
    if device_of(view) != "cpu":
        return f"tensors live on the device `{device_of(view)}`, whose allocator reuses memory already"
    library, version = platform.libc_ver()
    if library != "glibc":
        return f"these are settings of glibc; this Python uses `{library or platform.system()}`"
    if settings.get("huge_pages") and not _has_huge_pages(version):
        return "huge pages need glibc 2.35 and a kernel that hands them out on request (`madvise`)"
    for other in OTHER_ALLOCATORS:
        if other in os.environ.get("LD_PRELOAD", ""):
            return f"memory comes from {other} (`LD_PRELOAD`), not from glibc"
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""):
        return "the environment already sets glibc's thresholds"
    return None


def _has_huge_pages(version: str) -> bool:
    try:
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as file:
            offered = "[madvise]" in file.read()
    except OSError:
        return False
    return offered and tuple(int(part) for part in version.split(".")[:2]) >= (2, 35)


class Knob:
    def __init__(self, view: Any, settings: Settings) -> None:
        pass

    def on(self) -> None:
        """Nothing: the variables were set before Python started."""

    def off(self) -> None:
        """Nothing: they end with the process."""
