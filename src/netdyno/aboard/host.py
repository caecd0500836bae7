"""What the machine has and what others use of it: cores, memory."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any


class Cores:
    """The cores that this process may use: how busy they were since `start`, and how much of that was its own doing."""

    def __init__(self) -> None:
        self._began: tuple[tuple[float, float], float] | None = None

    @property
    def started(self) -> bool:
        """Whether somebody asked for it."""
        return self._began is not None

    def start(self) -> None:
        """From here on."""
        self._began = (machine_seconds(), own_seconds())

    def summary(self) -> dict[str, Any] | None:
        """Threads and cores; `others_share` is None where the system does not say."""
        import torch

        if self._began is None:
            return None
        return {
            "cores": len(mine()),
            "interop": int(torch.get_num_interop_threads()),
            "others_share": self._others(),
        }

    def _others(self) -> float | None:
        assert self._began is not None
        (busy, total), own = self._began
        (busy_now, total_now), own_now = machine_seconds(), own_seconds()
        if total_now <= total:
            return None
        return min(1.0, max(0.0, (busy_now - busy) - (own_now - own)) / (total_now - total))


def mine() -> set[int]:
    """The numbers of the cores that this process may use."""
    try:
        return set(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return set(range(os.cpu_count() or 1))


def machine_seconds() -> tuple[float, float]:
    """Seconds that our cores were busy, and seconds in all, since the machine was started."""
    cores, busy, total = {f"cpu{number}" for number in mine()}, 0, 0
    for line in _text("/proc/stat").splitlines():
        name, *fields = line.split()
        if name in cores:
            ticks = [int(field) for field in fields[:8]]
            total += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]
    return busy / _rate(), total / _rate()


def own_seconds() -> float:
    """Seconds on a core of this process and its descendants; of those that are over, if somebody waited for them."""
    return sum(_spent(process) for process in (os.getpid(), *_descendants(os.getpid())))


def _spent(process: int) -> float:
    _, _, text = _text(f"/proc/{process}/stat").rpartition(")")
    fields = text.split()
    # From the third field on: user, system, and both again of children that were waited for.
    return sum(int(field) for field in fields[11:15]) / _rate() if len(fields) > 14 else 0.0


def _descendants(process: int, deep: int = 0) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task") if deep < 4 else ():
            for child in _text(f"/proc/{process}/task/{thread}/children").split():
                yield int(child)
                yield from _descendants(int(child), deep + 1)


def memory() -> tuple[int, int]:
    """Bytes of this process at its peak, and bytes that it could have had in all.

    Pages of files are left out of the peak: they are given back when somebody needs the room.
    """
    status = _sizes("/proc/self/status")
    now = status.get("RssAnon", 0) + status.get("RssShmem", 0)
    peak = max(now, status.get("VmHWM", 0) - status.get("RssFile", 0))
    return peak, available() + now


def available() -> int:
    """Bytes that are free for new use; limits of control groups and of this process count."""
    left = _sizes("/proc/meminfo").get("MemAvailable", 0)
    return min([left, *(max(0, limit - used) for used, limit in (*_groups(), *_own_limits()))])


def capacity() -> int:
    """Bytes of memory that there are; limits of control groups count."""
    return min([_sizes("/proc/meminfo").get("MemTotal", 0), *(limit for _, limit in _groups())])


def _own_limits() -> Iterator[tuple[int, int]]:
    """Bytes of address space and of data that this process has and may have, where it was given a limit (`ulimit -v`, `-d`)."""
    try:
        import resource
    except ImportError:
        return
    status = _sizes("/proc/self/status")
    for limit, name in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        most = resource.getrlimit(limit)[0]
        if most != resource.RLIM_INFINITY and name in status:
            yield status[name], most


def _groups() -> Iterator[tuple[int, int]]:
    """Bytes used and allowed, for each control group (of the second kind) above this process that sets a limit."""
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        parts = [part for part in path.split("/") if part] if controllers == "" else None
        for depth in range(len(parts) + 1) if parts is not None else ():
            folder = "/".join(("/sys/fs/cgroup", *parts[:depth])) if parts is not None else ""
            with contextlib.suppress(ValueError):
                limit, used = int(_text(f"{folder}/memory.max")), int(_text(f"{folder}/memory.current"))
                yield max(0, used - _reclaimable(folder)), limit


def _reclaimable(folder: str) -> int:
    fields = dict(line.split() for line in _text(f"{folder}/memory.stat").splitlines())
    return int(fields.get("inactive_file", 0))


def _sizes(path: str) -> dict[str, int]:
    """The lines `Name: 12 kB` of a file, in bytes."""
    found = {}
    for line in _text(path).splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            found[name] = int(value.split()[0]) * 1024
    return found


def _rate() -> int:
    return os.sysconf("SC_CLK_TCK")


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
