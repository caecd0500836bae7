"""What the script writes: the names of files outside its scratch, and links that become copies before they are written to."""

import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from types import ModuleType
from typing import Any, NamedTuple

from .config import Config
from .stream import Stream

MOST_NAMES = 200
# A linked file is copied when the script writes to it. Beyond this size, or what the disk has room for, it is left a
# link: the lab sees afterwards that the original changed, and says so.
LARGEST_COPY = 4 << 30
WRITING = os.O_WRONLY | os.O_RDWR
MOST_MET = 2000


class _Layout(NamedTuple):
    """Where the copy of the working directory lies: `tree` stands for `top`, `home` is the user's own directory."""

    scratch: str
    tree: str
    top: str
    home: str
    in_place: bool


class _Change(NamedTuple):
    """Which of an audit event's values is the path, which an open folder it counts from, and what happens to the path."""

    path: int
    descriptor: int | None
    itself: bool
    told: bool


# Folders are not told: making one that exists is an event too, and would be told as something written.
CHANGES = {
    "os.mkdir": _Change(0, 2, itself=False, told=False),
    "os.rename": _Change(1, 3, itself=False, told=True),
    "os.remove": _Change(0, 1, itself=False, told=False),
    "os.rmdir": _Change(0, 1, itself=False, told=False),
    "os.link": _Change(1, 3, itself=False, told=True),
    "os.symlink": _Change(1, 2, itself=False, told=True),
    "os.truncate": _Change(0, None, itself=True, told=True),
    "os.chmod": _Change(0, 2, itself=True, told=False),
    "os.utime": _Change(0, 3, itself=True, told=False),
    "shutil.rmtree": _Change(0, 1, itself=True, told=False),
    "sqlite3.connect": _Change(0, None, itself=True, told=True),
}


class Writing:
    """Collects what is written and keeps it in the scratch.

    An audit hook cannot be taken out again; after `close` it knows no event any more. Files opened in C, behind
    Python's back, raise no audit event: of these `torch.save`, `torch.jit.save` and safetensors are met by wrappers.
    """

    def __init__(self, config: Config) -> None:
        self.names: list[str] = []
        self._stream = Stream(config.folder)
        self._layout = _layout(config.scratch)
        self._ignored = _ignored(config)
        self._met: set[str] = set()
        self._moved: dict[str, str] = {}
        self._inside = threading.local()
        self._undo: list[Callable[[], None]] = []
        self._acts: dict[str, Callable[[Any], None]] = {
            "open": self._opened,
            "import": self._imported,
            **{event: partial(self._changed, change) for event, change in CHANGES.items()},
        }

    def close(self) -> None:
        """Put every function back. The audit hook stays, and does nothing."""
        self._acts.clear()
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def hook(self) -> Callable[[str, Any], None]:
        """The audit hook. Most events are none of ours: `id()` is one, and an optimizer may call it for each parameter.

        A plain function costs the interpreter some 0.5 µs an event, most of it before the first line; a bound method
        five times that, as Python looks for an attribute on it each time.
        """
        acts = self._acts
        hear = self.hear

        def heard(event: str, of: Any) -> None:
            if event in acts:
                hear(event, of)

        return heard

    def hear(self, event: str, of: Any) -> None:
        """One audit event that may be ours. Raises nothing, and hears nothing of what it does itself."""
        act = self._acts.get(event)
        if act is None or getattr(self._inside, "busy", False):
            return
        self._inside.busy = True
        try:
            act(of)
        except Exception:  # noqa: S110  an audit hook that raises would forbid what the script does
            pass
        finally:
            self._inside.busy = False

    def _opened(self, of: Any) -> None:
        path, mode, flags = of
        # C code that opens for Python tells a mode and no flags.
        if (flags or 0) & WRITING or (isinstance(mode, str) and not flags and not mode.startswith("r")):
            self._changes(path, empties=bool((flags or 0) & os.O_TRUNC))

    def _changed(self, change: _Change, of: Any) -> None:
        # A path that counts from an open folder is met where a tree is removed, and that tree was detached before.
        if change.descriptor is None or of[change.descriptor] == -1:
            self._changes(of[change.path], itself=change.itself, told=change.told)

    def _changes(self, path: Any, *, itself: bool = True, empties: bool = False, told: bool = True) -> None:
        """`path` is about to be written to; `itself`: through a link, if it is one; `told`: it will be there afterwards."""
        if not isinstance(path, str | bytes | os.PathLike):
            return
        where = os.path.abspath(os.fsdecode(path))
        if where in self._met:
            return
        self._look_for_late_comers()
        if self._layout and not self._layout.in_place and _below(where, self._layout.tree):
            self._detach(where, itself=itself, empties=empties)
        if told:
            self._note(where)
        # A log that is opened anew for each line is looked at once.
        if itself and told and len(self._met) < MOST_MET:
            self._met.add(where)

    def _note(self, path: str) -> None:
        real = os.path.realpath(path)
        if len(self.names) >= MOST_NAMES or real in self.names or "__pycache__" in real:
            return
        if any(_below(real, folder) for folder in self._ignored):
            return
        self.names.append(real)
        self._stream.write("wrote", files=[real])

    def _detach(self, path: str, *, itself: bool, empties: bool) -> None:
        """Replace each link on the way, and the last one if `itself`, by a copy of what it points to."""
        assert self._layout is not None
        parts = os.path.relpath(path, self._layout.tree).split(os.sep)
        place = self._layout.tree
        for index, part in enumerate(parts):
            place = os.path.join(place, part)
            if os.path.islink(place) and (itself or index < len(parts) - 1):
                target = os.path.realpath(place)
                if _below(target, self._layout.scratch):
                    continue
                if os.path.isdir(target):
                    _unfold(place, target)
                elif os.path.isfile(target):
                    _copy_in(place, target, empties=empties)

    def _imported(self, of: Any) -> None:
        if str(of[0]).startswith("safetensors"):
            self._look_for_late_comers()

    def _look_for_late_comers(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "save"):
            self._wrap(torch, "save", 1)
            self._wrap(torch, "load", 0, reads=True)
            jit = getattr(torch, "jit", None)
            if jit is not None:
                self._wrap(jit, "save", 1)
        tensors = sys.modules.get("safetensors.torch")
        if tensors is not None:
            self._wrap(tensors, "serialize_file", 1)

    def _wrap(self, module: ModuleType, name: str, position: int, *, reads: bool = False) -> None:
        inner = module.__dict__.get(name)
        if inner is None or getattr(inner, "netdyno_written", None) is self:
            return
        keyword = {"serialize_file": "filename"}.get(name, "f")

        @wraps(inner)
        def outer(*given: Any, **named: Any) -> Any:
            with contextlib.suppress(Exception):
                given, named = self._aimed(given, named, position, keyword, reads=reads)
            return inner(*given, **named)

        outer.netdyno_written = self  # type: ignore[attr-defined]
        setattr(module, name, outer)

        def undo() -> None:
            if module.__dict__.get(name) is outer:
                setattr(module, name, inner)

        self._undo.append(undo)

    def _aimed(self, given: Any, named: Any, position: int, keyword: str, *, reads: bool) -> Any:
        path = named.get(keyword) if keyword in named else given[position] if len(given) > position else None
        if not self._acts or not isinstance(path, str | os.PathLike):
            return given, named
        aim = self._read_from(path) if reads else self._written_to(path)
        if aim is None:
            return given, named
        if keyword in named:
            return given, {**named, keyword: aim}
        return (*given[:position], aim, *given[position + 1 :]), named

    def _read_from(self, path: Any) -> str | None:
        return self._moved.get(os.path.abspath(os.fspath(path)))

    def _written_to(self, path: Any) -> str | None:
        """Where a save goes instead, or None when it may go where it wants."""
        where = os.path.abspath(os.fspath(path))
        layout = self._layout
        if layout is None or layout.in_place or _below(where, layout.scratch):
            self._guarded(where)
            return None
        real = os.path.realpath(where)
        if any(_below(real, folder) for folder in self._ignored) or not os.path.isdir(os.path.dirname(where)):
            return None  # without that folder the script's own save fails too
        if _below(real, layout.home):
            aim = os.path.join(layout.tree, os.path.relpath(real, layout.top))
        else:
            aim = os.path.join(layout.scratch, "outside", real.lstrip(os.sep))
        self._inside.busy = True
        try:
            os.makedirs(os.path.dirname(aim), exist_ok=True)
        finally:
            self._inside.busy = False
        self._guarded(aim)
        self._moved[where] = aim
        return aim

    def _guarded(self, path: str) -> None:
        self.hear("open", (path, "wb", os.O_WRONLY | os.O_TRUNC))


def install(config: Config) -> Writing:
    """From now on what this process writes is noted, and kept in the scratch where there is one."""
    writing = Writing(config)
    writing._look_for_late_comers()
    sys.addaudithook(writing.hook())
    return writing


def _layout(scratch: str | None) -> _Layout | None:
    if scratch is None:
        return None
    with open(os.path.join(scratch, "layout.json"), encoding="utf-8") as file:
        fields = json.load(file)
    return _Layout(scratch, fields["tree"], fields["top"], fields["home"], fields["in_place"])


def _ignored(config: Config) -> tuple[str, ...]:
    """Places whose files nobody wants to hear of: devices, our own results, the scratch, caches of compiled code."""
    caches = [os.environ[name] for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR") if name in os.environ]
    own = [config.folder, *([config.scratch] if config.scratch else [])]
    return ("/dev", "/proc", "/sys", *(os.path.realpath(place) for place in (*own, *caches)))


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _unfold(link: str, target: str) -> None:
    """A linked folder becomes a folder of links."""
    made = f"{link}.netdyno-{os.getpid()}"
    os.mkdir(made)
    for name in os.listdir(target):
        os.symlink(os.path.join(target, name), os.path.join(made, name))
    # Two steps, as no call replaces a link by a folder: a reader between them finds nothing for some microseconds.
    os.unlink(link)
    os.rename(made, link)


def _copy_in(link: str, target: str, *, empties: bool) -> None:
    """A linked file becomes a copy, or goes when it would be emptied at once."""
    if empties:
        os.unlink(link)
        return
    size = os.stat(target).st_size
    if size > LARGEST_COPY or size > shutil.disk_usage(os.path.dirname(link)).free // 2:
        return
    made = f"{link}.netdyno-{os.getpid()}"
    try:
        shutil.copy2(target, made)
        os.replace(made, link)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(made)
