"""When the ride ends, and how: by an exception that most scripts let pass, raised where it does the least harm."""

import ctypes
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from .config import Config

if TYPE_CHECKING:
    from .boot import Ride

MOST_RAISES = 6  # once, and five times more if it was swallowed; a script that swallows six swallows all
POLITE_S = 1.0  # from the end of the time, a boundary or a backward pass has so long to be the place of the stop
SOME_UPDATES = re.compile(rb'"updates": [1-9]')
AGREED = "stop_at"  # in the results' folder: the update after which all ranks stop


class Stop(SystemExit):
    """The ride is over. A SystemExit, because an uncaught one ends a process with status 0 and without a traceback,
    and threads, multiprocessing and training frameworks know how to treat it."""


class Stopper:
    """Ends the ride after so many updates or seconds, whichever comes first. What was seen is told before it raises."""

    def __init__(self, config: Config, observer: Any, ride: "Ride") -> None:
        self.ride = ride
        self.updates = config.updates
        self.seconds = config.seconds
        self.agreed = os.path.join(config.folder, AGREED)
        self.began = time.monotonic()
        self.reason: str | None = None
        self.raises = 0
        self.thread: int | None = None
        self._claim = threading.Lock()
        self._ordered: tuple[str, str] | None = None
        self._waiting = False  # for a backward pass, to raise there

    def forked(self) -> None:
        """In a forked child nothing has been stopped yet; its time runs on from its parent's start."""
        self._claim = threading.Lock()
        self.reason, self.raises, self.thread = None, 0, None

    def check(self) -> None:
        """At a boundary, on the training thread: raises Stop when the ride is over, again if that was swallowed."""
        self.thread = threading.get_ident()
        if self.reason is not None:
            self._raise_again()
        elif self.updates is not None and self.ride.updates >= self.updates:
            self.stop("updates", f"{self.ride.updates} updates were asked for")
        else:
            self._check_time()

    def _check_time(self) -> None:
        rank, ranks = _place_in_world()
        if ranks == 1:
            if self._over():
                self.stop("seconds", self._in_time())
            return
        # Ranks that stopped at different updates would wait for each other for ever: the first one says when.
        at = _number_in(self.agreed)
        if at is not None and self.ride.updates >= at:
            self.stop(*(self._ordered or ("seconds", self._in_time())))
        elif at is None and rank == 0 and self._over():
            self._agree()

    def _agree(self) -> None:
        # Nobody can have finished the next update yet, because its gradients need this rank's.
        _write_number(self.agreed, self.ride.updates + 1)

    def order(self, reason: str, says: str) -> None:
        """End the ride now; with several ranks after the next update, which the others are told of."""
        _, ranks = _place_in_world()
        if ranks == 1:
            self.stop(reason, says)
        self._ordered = (reason, says)
        self._agree()

    def _over(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.began >= self.seconds

    def _in_time(self) -> str:
        return f"{self.seconds} s were given, and {self.ride.updates} updates fitted into them"

    def stop(self, reason: str, says: str) -> None:
        """Tell the end and raise Stop here, on this thread."""
        with self._claim:
            first, self.reason = self.reason is None, self.reason or reason
        if first:
            self.ride.stopped(reason, says)
            self._wait_for_backward()
        self._raise_again()

    def _raise_again(self) -> None:
        if self.raises < MOST_RAISES:
            self.raises += 1
            _let_a_thread_end_in_silence()
            raise Stop

    def look(self) -> None:
        """From the clock's thread, now and then: sees to it that the time is kept though no update ends."""
        late = time.monotonic() - self.began - (self.seconds if self.seconds is not None else float("inf"))
        if self.reason is not None or late < 0:
            return
        _, ranks = _place_in_world()
        if ranks == 1:
            self._wait_for_backward()
        # Ranks first agree on an update, which may take one whole update more.
        if late >= (POLITE_S if ranks == 1 else self.ride.config.grace_s) and self._is_ours_to_stop():
            self._interrupt()

    def _is_ours_to_stop(self) -> bool:
        """A process that trains stops itself. One that never did stops only if it is nobody's launcher."""
        if self.ride.updates > 0 or self.ride.training_thread is not None:
            return True
        return not _has_children() and not _somebody_trains(self.ride.config.folder, besides=self.ride.stream.path)

    def _interrupt(self) -> None:
        """Raise Stop in the training thread wherever it is: at its next bytecode. Once, for it may already be tidying up."""
        with self._claim:
            if self.reason is not None:
                return
            self.reason = "seconds"
        self.ride.stopped("seconds", f"{self._in_time()}; no update ended since")
        known = self.thread or self.ride.training_thread
        self.raises += 1
        _let_a_thread_end_in_silence()
        raise_in(int(known or threading.main_thread().ident or 0))

    def _wait_for_backward(self) -> None:
        """From now on a backward pass raises: inside a closure that takes minutes, and in loops that swallow."""
        if self._waiting:
            return
        self._waiting = True
        import torch

        inner = torch.autograd.backward

        def backward(*arguments: Any, **settings: Any) -> Any:
            if self.ride.stream.process == os.getpid():
                self.stop("seconds", self._in_time())
            return inner(*arguments, **settings)

        torch.autograd.backward = backward


current: Stopper | None = None


def stop(reason: str, says: str) -> None:
    """End this process's ride, as the budget would: for a session that is told to end.

    Raises Stop; returns only where other ranks must first be told, and then the next update is the last.
    """
    if current is None:
        raise Stop
    current.order(reason, says)


def _let_a_thread_end_in_silence() -> None:
    """An uncaught SystemExit ends a thread without a word, but one of its subclasses would be printed."""
    inner = threading.excepthook
    if getattr(inner, "of_netdyno", False):
        return

    def hook(told: Any) -> None:
        if not issubclass(told.exc_type, Stop):
            inner(told)

    hook.of_netdyno = True  # type: ignore[attr-defined]
    threading.excepthook = hook


def raise_in(thread: int) -> bool:
    """Raise Stop asynchronously in a thread; False when there is no such thread."""
    return ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stop)) == 1


def _place_in_world() -> tuple[int, int]:
    import torch

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1


def _number_in(path: str) -> int | None:
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _write_number(path: str, number: int) -> None:
    own = f"{path}.{os.getpid()}"
    with open(own, "w") as file:
        file.write(str(number))
    os.replace(own, path)  # whole or not at all: others read it meanwhile


def _has_children() -> bool:
    """True for one that waits for processes of multiprocessing, which may train; loader workers are daemons."""
    processes = sys.modules.get("multiprocessing.process")
    children = getattr(processes, "_children", ())
    return any(not child.daemon and child.is_alive() for child in list(children))


def _somebody_trains(folder: str, *, besides: str) -> bool:
    """True when another process of this ride finished an update."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(".jsonl") and path != besides:
            with open(path, "rb") as file:
                if any(SOME_UPDATES.search(line) for line in file if line.startswith(b'{"is": "tick"')):
                    return True
    return False
