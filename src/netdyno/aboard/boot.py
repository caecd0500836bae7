"""How one goes aboard: waits for torch, then plants seeds, observes, and keeps the time. Nothing here reaches the script.

Until torch arrives only this file is loaded, and it imports next to nothing: every Python process that the script
starts passes through here.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` costs more than all the rest of this file
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from .config import Config
    from .stopping import Stopper
    from .stream import Stream

# How much of the story a kill may cost. A share, so that a run of days does not fill the disk with its story.
TELL_S, TELL_SHARE = 2.0, 0.02
LOOK_S = 0.25  # how late a time budget may be noticed
# A process started by one of these is a worker until it trains: it may be a loader worker or a compiler.
WORKERS = ("--multiprocessing-fork", "multiprocessing.forkserver", "multiprocessing.resource_tracker", "compile_worker")
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
KILL = 9


def arm() -> None:
    """Board when torch's module body has run; now, if it has already. A torch that is merely looked for changes nothing."""
    if f'"lab": {os.getppid()},' in os.environ.get("NETDYNO_ABOARD", ""):
        _die_with_the_lab()
    if "torch" in sys.modules:
        board()
    else:
        after_import("torch", lambda _: board())


def _die_with_the_lab() -> None:
    """The script's first process is killed by the kernel when the lab dies, also while it is frozen."""
    import ctypes

    try:
        ctypes.CDLL(None).prctl(DIE_WITH_PARENT, KILL, 0, 0, 0)
    except (OSError, AttributeError):  # not Linux
        return


def after_import(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then` with the module once its body has run. Looking for the module without loading it changes nothing."""
    sys.meta_path.insert(0, _After(name, then))  # type: ignore[arg-type]


class _After:
    """Finds one module as the finders behind it would, and adds a word to the end of its execution.

    Libraries ask `find_spec("torch")` to learn whether torch is installed; who stops listening then hears nothing
    of the import that follows. So this one leaves only when a module's body has run.
    """

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self.name:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None and not isinstance(finder, _After) else None
            if spec is not None:
                self._listen(spec)
                return spec
        return None

    def _listen(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def run(module: ModuleType) -> None:
            execute(module)
            # The loader is as its author knows it again, and the import system as it was.
            getattr(loader, "__dict__", {}).pop("exec_module", None)
            if self in sys.meta_path:
                sys.meta_path.remove(self)  # type: ignore[arg-type]
                self.then(module)

        try:
            # On the one instance made for this look: its type, and all it can do besides, stay.
            loader.exec_module = run  # type: ignore[union-attr,method-assign]
        except AttributeError:  # a loader without room for it
            spec.loader = _Wrapped(loader, run)  # type: ignore[assignment]


class _Wrapped:
    """A loader that takes no attributes, with another `exec_module`."""

    def __init__(self, loader: Any, run: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self.exec_module = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_ride: Ride | None = None


def _thread_here() -> int:
    import _thread

    return _thread.get_ident()


def board() -> None:
    """Everything that happens in a process once torch is there. Raises nothing."""
    global _ride  # noqa: PLW0603  one process, one ride
    if _ride is not None:
        return
    try:
        from .config import from_environment

        config = from_environment()
        if config is None:
            return
        _ride = Ride(config)
        _ride.begin()
    except Exception as error:
        if _ride is not None:
            _ride.stream.trouble("boot", error)


def riding() -> Ride | None:
    """What rides in this process, if anything does."""
    return _ride


class Ride:
    """One process's ride: what observes it, what it tells, what stops it."""

    def __init__(self, config: Config) -> None:
        from .stream import Stream

        self.config = config
        self.stream: Stream = Stream(config.folder)
        self.observer: Any = None
        self.stopper: Stopper | None = None
        self.telling = self.over = self.began = False
        self.troubles = 0  # of the observer's, told
        self.base = 0  # updates that belong to the process this one was forked from

    def begin(self) -> None:
        """Seeds, observer, changes, stopper, session: in this order."""
        worker = any(mark in " ".join(sys.orig_argv) for mark in WORKERS)
        if not worker:
            self._say_hello()
        self._guarded("seeds", self._plant)
        self._guarded("observe", self._observe)
        self._guarded("written", self._watch_files)
        self._guarded("stopping", self._keep_time)
        if self.observer is not None:
            self._guarded("knobs", self._put_on)
            self._guarded("remedies", self._take_remedies)
            self._guarded("session", self._open_session)
        os.register_at_fork(after_in_child=self._forked)
        self._start_clock()

    def _guarded(self, where: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            self.stream.trouble(where, error)

    def _plant(self) -> None:
        from . import seeds

        seeds.plant(self.config.seed)
        if self.config.shift:
            seeds.shift(self.config.shift)

    def _observe(self) -> None:
        from . import observe

        self.observer = observe.install(self.config)

    def _watch_files(self) -> None:
        from . import written

        written.install(self.config)

    def _keep_time(self) -> None:
        from . import stopping

        self.stopper = stopping.Stopper(self.config, self.observer, self)
        stopping.current = self.stopper
        if self.observer is not None:
            self.observer.boundary.append(self._boundary)

    def _put_on(self) -> None:
        if self.config.recipe and self.config.line is None:
            from . import knobs

            knobs.put_on(self.observer, self.config.recipe)

    def _take_remedies(self) -> None:
        if self.config.remedies:
            from . import remedies

            remedies.put_on(self.observer, self.config.remedies)

    def _open_session(self) -> None:
        if self.config.line is not None:
            from . import session

            session.Session(self.config, self.observer)

    def _say_hello(self) -> None:
        import torch

        if not self.telling:
            self.telling = True
            self.stream.hello(str(torch.__version__))
            self._at_the_end()

    def _at_the_end(self) -> None:
        import atexit

        atexit.register(self._ended, os.getpid())
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:
            # A forked child of multiprocessing leaves by os._exit, and runs no atexit function.
            from multiprocessing.util import Finalize

            Finalize(None, self._ended, args=(os.getpid(),), exitpriority=0)

    def _boundary(self) -> None:
        """After each update, on the thread that made it."""
        if self.stream.process != os.getpid():
            return
        if not self.telling:
            # Whoever finishes an update trains, worker or not.
            self._say_hello()
            self._start_clock()
        if self.stopper is not None:
            self.stopper.check()
        if not self.began:
            # The lab learns at once how long the way to the first update was.
            self.began = True
            self.tell()

    @property
    def updates(self) -> int:
        """Updates that this process finished."""
        return 0 if self.observer is None else int(self.observer.updates) - self.base

    def tell(self) -> None:
        """How things stand now, and what points fired."""
        if self.observer is None or not self.telling or self.stream.process != os.getpid():
            return
        try:
            summary = self.observer.summary()
            if self.base:
                summary["updates"] = self.updates
            self.stream.write("tick", **summary)
            self._tell_troubles()
        except Exception as error:
            self.stream.trouble("summary", error)

    def stopped(self, reason: str, says: str) -> None:
        """The last word, told before anything is raised: whatever the script does next, the results are safe."""
        if self.over:
            return
        self.over = True
        self._guarded("vitals", self._last_looks)
        self.tell()
        self._guarded("patches", self._tell_patches)
        self.stream.write("stopped", reason=reason, updates=self.updates, says=says)

    def _last_looks(self) -> None:
        vitals = getattr(self.observer, "vitals", None)
        if vitals is not None and self.stream.process == os.getpid() and self.training_thread in (None, _thread_here()):
            # What is looked at now is no time of the script's.
            self.observer.account.stop()
            vitals.over()

    def _tell_patches(self) -> None:
        patches = getattr(self.observer, "patches", None)
        if callable(patches):
            self.stream.write("patches", **patches())

    def _tell_troubles(self) -> None:
        troubles = getattr(self.observer, "troubles", ())
        for where, says in troubles[self.troubles :]:
            self.stream.write("trouble", where=where, says=says)
        self.troubles = len(troubles)

    def _ended(self, process: int) -> None:
        if process != os.getpid() or not self.telling:
            return
        error = getattr(sys, "last_value", None)
        if error is not None:
            self.stopped("failed", f"{type(error).__name__}: {error}"[:2000])
        else:
            self.stopped("ended", "the script came to its end")

    def _start_clock(self) -> None:
        import _thread

        # Not a threading.Thread: scripts that wait for the last of their threads, or list them, do not meet ours.
        _thread.start_new_thread(self._clock, (os.getpid(),))

    def _clock(self, process: int) -> None:
        import time

        began = told = time.monotonic()
        while self.stream.process == process and not self._is_loader_worker():
            time.sleep(LOOK_S)
            if not self.telling:
                if self._is_training():
                    self._say_hello()
                continue
            if self._lab_is_gone():
                os.kill(process, KILL)
            if self.stopper is not None:
                self._guarded("watchdog", self.stopper.look)
            # A driven script answers on its line; telling the whole story would fall into somebody's turn.
            now = time.monotonic()
            if self.config.line is None and not self.over and now - told >= max(TELL_S, TELL_SHARE * (now - began)):
                told = now
                self.tell()

    def _is_training(self) -> bool:
        """A worker that has not finished an update yet may be in the middle of a long one."""
        return self.updates > 0 or self.training_thread is not None

    @property
    def training_thread(self) -> int | None:
        """The thread that was seen training; None while none was, and in a process of which none is known."""
        thread = getattr(self.observer, "training_thread", None)
        return thread if thread is not None and thread > 0 else None

    def _is_loader_worker(self) -> bool:
        data = sys.modules.get("torch.utils.data")
        return data is not None and data.get_worker_info() is not None

    def _lab_is_gone(self) -> bool:
        if self.config.lab is None:
            return False
        try:
            os.kill(self.config.lab, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False

    def _forked(self) -> None:
        """In a forked child: say nothing more, unless it turns out to train."""
        from .stream import Stream

        self.base = 0 if self.observer is None else int(self.observer.updates)
        self.stream = Stream(self.config.folder)
        self.telling = self.over = self.began = False
        if self.stopper is not None:
            self.stopper.forked()
        forked = getattr(self.observer, "forked", None)
        if callable(forked):
            self._guarded("fork", forked)
