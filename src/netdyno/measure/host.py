"""What the machine has and has left: cores, memory, caches, pressure. A container's limits count."""

import contextlib
import os
import shutil
import tempfile

import psutil

UNLIMITED = 1 << 60  # cgroup version 1 writes "no limit" as a number near the top of 64 bits


def cores() -> int:
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_capacity() -> int:
    """Bytes of memory that this process could use at most: the machine's, or its container's if that is less."""
    limits = [limit for _, limit in _groups()]
    return min([int(psutil.virtual_memory().total), *limits])


def memory_available() -> int:
    """Bytes that are free for the taking now, in the machine and in its container."""
    left = [max(0, limit - used) for used, limit in _groups()]
    return min([int(psutil.virtual_memory().available), *left])


def last_level_cache() -> int:
    """Bytes of the largest cache that core 0 sees; 32 MiB where the system does not say."""
    found = [32 << 20]
    folder = "/sys/devices/system/cpu/cpu0/cache"
    with contextlib.suppress(OSError, ValueError):
        sizes = [_sized(_text(f"{folder}/{index}/size")) for index in os.listdir(folder) if index.startswith("index")]
        found = [max(sizes)] if sizes else found
    return found[0]


def processor_name() -> str:
    """The processor as the system calls it."""
    for line in _text("/proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Processor", "cpu model"}:
            return value.strip()
    import platform

    return platform.processor() or platform.machine()


def pressure(resource: str) -> float:
    """The share of the last ten seconds in which some task waited for `resource`: "cpu", "io" or "memory"."""
    for line in _text(f"/proc/pressure/{resource}").splitlines():
        if line.startswith("some"):
            fields = dict(part.split("=") for part in line.split()[1:])
            return float(fields["avg10"]) / 100
    return 0.0


def free_space(folder: str) -> int:
    """Bytes free in the file system of `folder`; 0 when there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def temporary_folder() -> str:
    """Where programs of this user put temporary files."""
    return tempfile.gettempdir()


def _groups() -> list[tuple[int, int]]:
    """Bytes used and allowed for each control group above this process that sets a limit."""
    found = []
    for folder, limit, usage in _group_folders():
        with contextlib.suppress(ValueError):
            allowed = int(_text(f"{folder}/{limit}"))
            if allowed < UNLIMITED:
                # The page cache of a group is given back under pressure, so it is not taken.
                found.append((max(0, int(_text(f"{folder}/{usage}")) - _reclaimable(folder)), allowed))
    return found


def _group_folders() -> list[tuple[str, str, str]]:
    two, one = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
    for line in _text("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            return [(folder, "memory.max", "memory.current") for folder in _upwards(two, path)]
        if "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
            return [(folder, *names) for folder in _upwards(one, path)]
    return []


def _upwards(root: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:depth]) for depth in range(len(parts), -1, -1)]


def _reclaimable(folder: str) -> int:
    for line in _text(f"{folder}/memory.stat").splitlines():
        key, _, value = line.partition(" ")
        if key in {"inactive_file", "total_inactive_file"}:
            return int(value)
    return 0


def _sized(text: str) -> int:
    text = text.strip()
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
