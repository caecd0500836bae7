"""A process with PyTorch imported and nothing computed, from which processes that hold models are forked in a moment.

A fork shares its first pages with the nursery, so memory and cold starts are measured in processes that were started afresh.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import BinaryIO

from netdyno.errors import ArmError

# Importing PyTorch takes seconds, on a crowded machine a minute; longer means that something is broken.
START_S = 180.0


class Forked:
    """A process that a nursery forked: what `subprocess.Popen` is, as far as it is needed. Its exit status is not known."""

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.returncode: int | None = None
        try:
            self._handle: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._handle = None

    def poll(self) -> int | None:
        """None while it lives."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended. Raises subprocess.TimeoutExpired."""
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
        return status

    def kill(self) -> None:
        """End it."""
        if self._handle is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._handle is not None and select.select([self._handle], [], [], timeout)[0]:
            os.close(self._handle)
            self._handle = None
        if self._handle is None:
            self.returncode = 0
        return self.returncode


class Nursery:
    """The near end. Starts when it is made; close it, or use it in a `with`."""

    def __init__(self, python: str = sys.executable) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(START_S)
        self._process = subprocess.Popen(
            (python, "-m", "netdyno.runtimes._nursery", str(theirs.fileno())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # a Ctrl-C is for who started us
        )
        theirs.close()

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, said: "tempfile._TemporaryFileWrapper[bytes] | BinaryIO") -> Forked:
        """A new process that answers as `netdyno.runtimes._child` does, and prints to `said`. Raises ArmError when there is no nursery left."""
        orders, answers = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._line, [b"fork"], [orders[0], answers[1], said.fileno()])
            told = self._line.recv(64)
        except OSError as error:
            told = b""
            why = f": {error}"
        else:
            why = ""
        finally:
            os.close(orders[0])
            os.close(answers[1])
        if not told:
            os.close(orders[1])
            os.close(answers[0])
            raise ArmError(f"the process that starts the others is gone{why}")
        return Forked(int(told), os.fdopen(orders[1], "wb"), os.fdopen(answers[0], "rb"))

    def close(self) -> None:
        """End it; the processes it started end with their own pipes."""
        self._line.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def serve(handle: int) -> None:
    """Fork whenever told, until the line is closed."""
    import torch  # noqa: F401  this is what it is for

    import netdyno.runtimes._child as child
    import netdyno.targets.release  # noqa: F401

    line = socket.socket(fileno=handle)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    while True:
        message, handles, _, _ = socket.recv_fds(line, 64, 3)
        if not message:
            os._exit(0)  # an interpreter with PyTorch takes its time to end
        forked = os.fork()
        if forked == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for place, each in enumerate(handles):
                os.dup2(each, place)
            line.close()
            child.main()
            os._exit(0)
        for each in handles:
            os.close(each)
        line.send(str(forked).encode())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
