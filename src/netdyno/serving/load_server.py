"""The processes of a service on this machine, found by the port they listen on: what an answer costs them."""

import contextlib
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Server:
    """The process that listens, with its children and, where several share the port, its siblings."""

    processes: tuple[psutil.Process, ...]

    def cpu(self) -> float:
        """CPU seconds so far, of children that have ended too."""
        total = 0.0
        for process in self._all():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        for process in self.processes:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.children_user + times.children_system
        return total

    def memory(self) -> int | None:
        """Bytes of memory that are their own part; None where that may not be read."""
        total = 0
        for process in self._all():
            try:
                total += process.memory_full_info().pss
            except (psutil.Error, AttributeError):
                return None
        return total

    def _all(self) -> set[psutil.Process]:
        found = set(self.processes)
        for process in self.processes:
            with contextlib.suppress(psutil.Error):
                found |= set(process.children(recursive=True))
        return found


def found(port: int) -> Server | None:
    """Who listens on a port of this machine; None where nobody says, or it is another user's."""
    try:
        listening = [
            one for one in psutil.net_connections("tcp")
            if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port
        ]  # fmt: skip
        processes = tuple(psutil.Process(pid) for pid in sorted({one.pid for one in listening if one.pid}))
    except psutil.Error:
        return None
    # A worker that inherited the socket is a child of another one that has it: it must not count twice.
    tops = tuple(one for one in processes if not set(one.parents()) & set(processes))
    return Server(tops) if tops else None
