"""A warm process, PyTorch loaded and nothing computed, from which residents are forked in a moment.

The zygote runs no tensor operation, for that starts threads, and a fork copies only one of them. It outlives no
lab: it watches the lab's process itself, not only the line to it, and ends every resident with its whole group
when the lab is gone, however it went. If the zygote is killed, the kernel ends its children (`die_with_parent`).
"""

import atexit
import contextlib
import importlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import msgspec
import torch

from netdyno.arms import child
from netdyno.arms.last_words import tail
from netdyno.arms.processes import adopt_orphans, end_group, members
from netdyno.errors import ArmError
from netdyno.interventions._base import catalogue
from netdyno.measure.stopwatch import children
from netdyno.targets.workload import load

# Importing PyTorch takes seconds, on a crowded machine a minute; longer means that something is broken.
START_S = 180.0
# Every optimizer imports the first. The second starts the one thread that a target's import may well start: a
# pool of the linear algebra library, which ends before a fork and comes back after it by itself.
WARM = ("torch._dynamo", "scipy.linalg")
LARGEST = 1 << 20  # bytes of one message
PATIENCE_S = 5.0  # for processes to be gone after SIGKILL


class Zygote:
    """The lab's end. Loads the target's file once, unless that would start threads or touch a device."""

    def __init__(self, reference: str | None = None) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process that writes to it
        self._lock = threading.Lock()
        self._residents: set[int] = set()
        # What multiprocessing puts on disk (sockets) goes into one folder: processes that are killed leave it there.
        # Lab and zygote both remove it, whichever lives longer.
        self._folder = ""
        with contextlib.suppress(OSError):
            self._folder = tempfile.mkdtemp(prefix="netdyno-")
        self._process = subprocess.Popen(
            _command(theirs.fileno(), os.getpid(), self._folder, reference),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # a Ctrl-C is for the lab
        )
        theirs.close()
        self._line.settimeout(START_S)

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it ended or was closed."""
        return self._line.fileno() >= 0 and self._process.poll() is None

    @property
    def idle(self) -> bool:
        """True when no resident of it is left."""
        return not self._residents

    def start(self, pipe: int, log: int, environment: dict[str, str] | None = None) -> int:
        """The process id, and group, of a new resident that reads orders from `pipe` and writes prints to `log`.

        With `environment` it is a fresh interpreter under exactly these variables, else a fork.
        """
        resident = int(self._ask(("start", environment), fds=(pipe, log)))
        self._residents.add(resident)
        return resident

    def reap(self, resident: int) -> int | None:
        """End a resident's whole group; its exit status as os.waitpid gives it, or None when nobody knows."""
        if resident not in self._residents:
            return None
        self._residents.discard(resident)
        try:
            return int(self._ask(("reap", resident)))
        except ArmError:
            end_group(resident)
            return None

    def close(self) -> None:
        """End the zygote and all its residents. Safe to call twice."""
        if self._line.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)  # heard even if a loader worker of the lab's holds a copy of the line
        self._line.close()
        self._residents.clear()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Zygote":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, order: tuple[Any, ...], fds: tuple[int, ...] = ()) -> Any:
        with self._lock:
            try:
                socket.send_fds(self._line, [msgspec.msgpack.encode(order)], fds)
                answer = self._line.recv(LARGEST)
            except OSError as error:
                raise self._gone(f"{type(error).__name__}: {error}") from error
            except BaseException:
                # An answer that nobody waits for would be taken for that to the next order.
                self.close()
                raise
        if not answer:
            raise self._gone("it closed its line")
        told = msgspec.msgpack.decode(answer)
        if isinstance(told, str):
            raise ArmError(f"no process could be started: {told}")
        return told

    def _gone(self, why: str) -> ArmError:
        last_words = None
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._log.fileno()).st_size
            last_words = tail(os.pread(self._log.fileno(), LARGEST, max(0, size - LARGEST)).decode(errors="replace"))
        self.close()
        return ArmError(f"the process that starts the sides is gone: `{why}`", last_words=last_words)


_SHARED: dict[tuple[int, str], Zygote] = {}


def shared(reference: str) -> Zygote:
    """The one zygote of this process for a target; those of other targets end when they are idle."""
    own = os.getpid()
    for key, other in list(_SHARED.items()):
        if key[0] != own:
            del _SHARED[key]  # of a parent that forked us: not ours to close
        elif not other.alive or (key[1] != reference and other.idle):
            other.close()
            del _SHARED[key]
    if (own, reference) not in _SHARED:
        _SHARED[own, reference] = Zygote(reference)
    return _SHARED[own, reference]


@atexit.register
def close_shared() -> None:
    """End this process's zygotes."""
    for (owner, _), zygote in _SHARED.items():
        if owner == os.getpid():
            zygote.close()
    _SHARED.clear()


def _command(line: int, lab: int, folder: str, reference: str | None) -> list[str]:
    return [
        sys.executable,
        *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]  # as multiprocessing does
        "-c",
        # With -c there is no main module that a spawned loader worker would run again.
        _program(f"from netdyno.arms.zygote import serve; serve({line}, {lab}, {folder!r}, {reference!r})"),
    ]


def _program(then: str) -> str:
    return f"import sys; sys.path[:] = {sys.path!r}\n{then}"


def serve(line: int, lab: int, folder: str, reference: str | None) -> None:
    """What the zygote does: start and reap residents until the lab closes the line or dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    adopt_orphans()
    try:
        watch = os.pidfd_open(lab)
    except ProcessLookupError:
        return
    signal.alarm(int(START_S))  # a target whose import never ends must not keep us when the lab is gone
    _get_warm(line, lab, folder, reference)
    signal.alarm(0)
    requests = socket.socket(fileno=line)
    nursery = _Nursery((requests.fileno(), watch), folder)
    try:
        while True:
            ready, _, _ = select.select([requests.fileno(), watch], [], [])
            if watch in ready:
                break
            message, fds, _, _ = socket.recv_fds(requests, LARGEST, 2)
            if not message:
                break
            requests.send(msgspec.msgpack.encode(nursery.do(msgspec.msgpack.decode(message), fds)))
    finally:
        nursery.close()
        os._exit(0)  # nothing to tidy up, and an interpreter with PyTorch takes its time to end


def _get_warm(line: int, lab: int, folder: str, reference: str | None) -> None:
    """Load what every resident needs. A target that starts threads or may touch a device is loaded by each itself."""
    catalogue()
    for slow in WARM:
        importlib.import_module(slow)
    if reference is None or torch.backends.cuda.is_built():
        return
    before = len(os.listdir("/proc/self/task"))
    with contextlib.suppress(Exception, SystemExit):  # the resident will say what is wrong with it
        load(reference)
    if len(os.listdir("/proc/self/task")) > before:
        os.set_inheritable(line, True)
        os.execv(sys.executable, _command(line, lab, folder, None))  # noqa: S606  the same program, without the target


class _Nursery:
    """The zygote's children."""

    def __init__(self, own: tuple[int, ...], folder: str) -> None:
        self._own = own  # what residents must not inherit
        self._folder = folder
        self._residents: set[int] = set()

    def do(self, order: tuple[str, Any], fds: list[int]) -> int | str:
        """Carry out an order: a process id or status, or why not."""
        what, value = order
        try:
            if what == "reap":
                return self._reap(value)
            pipe, log = fds
            resident = self._fork(pipe, log) if value is None else self._spawn(pipe, log, value)
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        finally:
            for handle in fds:
                os.close(handle)
        self._residents.add(resident)
        return resident

    def close(self) -> None:
        """End every resident with its group, and whatever left its group: orphans come to the zygote."""
        for resident in self._residents:
            end_group(resident)
        self._residents.clear()
        _until_gone(_kill_children, spared=set())
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fork(self, pipe: int, log: int) -> int:
        zygote = os.getpid()
        with warnings.catch_warnings():
            # The threads that Python 3.12 warns of are the linear algebra library's, which knows what to do.
            warnings.simplefilter("ignore", DeprecationWarning)
            resident = os.fork()
        if resident == 0:
            for handle in self._own:
                os.close(handle)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            child.main(pipe, log, zygote, self._folder)
        return resident

    def _spawn(self, pipe: int, log: int, environment: dict[str, str]) -> int:
        program = _program(f"from netdyno.arms.child import main; main(3, 2, {os.getpid()}, {self._folder!r})")
        return os.posix_spawn(
            sys.executable,
            [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", program],  # type: ignore[attr-defined]
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, pipe, 3),
            ],
            setsid=True,
            setsigdef=[signal.SIGINT],
        )

    def _reap(self, resident: int) -> int:
        # The leader, dead or alive, holds the group's number until it is waited for: nobody else can be hit.
        end_group(resident)
        _, status = os.waitpid(resident, 0)
        self._residents.discard(resident)
        _until_gone(lambda: members(resident), spared=self._residents)
        shutil.rmtree(child.folder_of(self._folder, resident), ignore_errors=True)
        return status


def _kill_children() -> list[int]:
    alive = children(os.getpid())
    for process in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return alive


def _until_gone(left: Callable[[], list[int]], *, spared: set[int]) -> None:
    """Reap dead children, except the spared, until nobody is left."""
    end = time.monotonic() + PATIENCE_S
    while True:
        remaining = left()
        for process in set(children(os.getpid())) - spared:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        if not remaining or time.monotonic() > end:
            return
        time.sleep(0.002)
