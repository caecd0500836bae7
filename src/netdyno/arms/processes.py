"""Processes of the lab: they die with their parent, freeze and thaw as a group, and are weighed together. Linux."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
TIDY_UP_S = 2.0


def die_with_parent() -> None:
    """From now on the kernel kills this process, frozen or not, when the thread that started it ends."""
    _control(DIE_WITH_PARENT, signal.SIGKILL)


def adopt_orphans() -> None:
    """From now on descendants whose parent died become children of this process, so that it can reap them."""
    _control(ADOPT_ORPHANS, 1)


def _control(what: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(what, value, 0, 0, 0)


class Guarded:
    """A loader's `worker_init_fn` that first ties the worker's life to its parent's. Survives pickling.

    PyTorch's own watchdog looks every five seconds, and not at all while the worker is frozen.
    """

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        self.then = then

    def __call__(self, worker: int) -> None:
        die_with_parent()
        parent = parent_process()
        if parent is not None and not parent.is_alive():  # it died before the kernel was told
            os._exit(1)
        if self.then is not None:
            self.then(worker)


def freeze(process: int) -> None:
    """Stop one process; gone already is fine."""
    _signal(process, signal.SIGSTOP)


def thaw(process: int) -> None:
    """Let one process go on; gone already is fine."""
    _signal(process, signal.SIGCONT)


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)


def signal_group(group: int, number: int) -> None:
    """A signal to every process of a group; an empty group is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_group(group: int) -> None:
    """Kill every process of a group, frozen or not.

    Python's resource tracker goes last, when it has removed the semaphores that the others can no longer remove.
    """
    trackers = []
    for process in members(group):
        if _tracks_resources(process):
            thaw(process)
            trackers.append(process)
        else:
            _signal(process, signal.SIGKILL)
    end = time.monotonic() + TIDY_UP_S
    while any(process in trackers for process in members(group)) and time.monotonic() < end:
        time.sleep(0.005)
    signal_group(group, signal.SIGKILL)


def _tracks_resources(process: int) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return b"multiprocessing.resource_tracker" in file.read()
    return False


def members(group: int) -> list[int]:
    """Every process of a group that still runs or is frozen; the dead who wait to be reaped are left out."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat") as file:
                # The command in brackets may itself hold blanks and brackets.
                state, _, its_group = file.read().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state not in "ZX":
                    found.append(int(name))
    return found


def peak_weight(group: int) -> int | None:
    """The most memory a process group held, in bytes, or None where the kernel does not say.

    Proportional set size summed over the group, plus for each process what its own high-water mark (kept by the
    kernel, so nothing is missed between two looks) lies above its present size. The peaks of the members need
    not coincide, so this is an upper bound; workers that ended before are not in it.
    """
    weights = [_peak(process) for process in members(group)]
    known = [weight for weight in weights if weight is not None]
    return sum(known) if known else None


def _peak(process: int) -> int | None:
    now = _fields(f"/proc/{process}/smaps_rollup")
    marks = _fields(f"/proc/{process}/status")
    if "Pss" not in now:
        return None
    return now["Pss"] + max(0, marks.get("VmHWM", 0) - now["Rss"])


def _fields(path: str) -> dict[str, int]:
    """The lines `Name:  123 kB` of a file under /proc, in bytes."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError), open(path) as file:
        for line in file:
            name, _, rest = line.partition(":")
            if rest.rstrip().endswith(" kB"):
                found[name] = int(rest.split()[0]) * 1024
    return found


def killed_for_memory() -> int:
    """How many processes the kernel has killed on this machine because memory ran out; only ever grows."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
