"""A scratch copy of a script's working directory: what it writes stays there, and no launch meets another's leavings."""

import contextlib
import errno
import fcntl
import getpass
import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

from netdyno.errors import TargetError
from netdyno.targets.script import Script

PREFIX = "netdyno-scratch-"
TELLING = ("netdyno-ride-", "netdyno-line-")  # folders for what is told
LAYOUT = "layout.json"  # read by aboard/written.py
OWNER = "owner"

# Where copying costs nothing (the file system shares the blocks until one side writes) there is no limit. Elsewhere a
# launch should not wait for more than about a second: source, settings and small data are copied, the rest is linked.
COPIED_EACH = 32 << 20
COPIED_IN_ALL = 200 << 20
# A tree of more entries without a Python file holds samples. It is linked at its root, as a walk that begins at a link
# goes on below it, and one that meets a link does not.
SAMPLES = 200
# A tree of source is copied up to so many entries; what lies deeper than the first so many is linked.
ENTRIES = 4000
# Of a linked tree so many files are compared afterwards: a look at each takes some microseconds.
COMPARED = 2000
# `../data` is a habit; nobody was met who climbs higher than three.
LEVELS_ABOVE = 3
ENTRIES_ABOVE = 2000

LEFT_OUT = {"__pycache__", ".netdyno", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".ipynb_checkpoints"}
# Never written by a training, often asked: scripts log the commit, and start interpreters of their own environment.
LINKED_WHOLE = {".git", ".hg", ".venv", "venv", "node_modules", "site-packages", ".tox", ".nox"}
ENVIRONMENTS = {"pyvenv.cfg", "conda-meta"}

FICLONE = 0x40049409  # linux/fs.h
ABANDONED_S = 86400.0

# A Unix socket's path has at most 107 characters, and multiprocessing puts some 45 of them below the temporary folder.
LONGEST_TEMPORARY = 60

Stamp = tuple[int, int]


class Written(NamedTuple):
    """A file the script wrote: as seen from its working directory, or absolute. One in the `scratch` goes with it."""

    path: str
    bytes: int
    place: Literal["scratch", "outside"]

    @property
    def says(self) -> str:
        """The path, and what became of the file where that is not plain.

        >>> Written("last.pt", 10, "scratch").says, Written("/data/last.pt", 10, "outside").says
        ('last.pt', '/data/last.pt (stays)')
        """
        if self.place == "outside":
            return f"{self.path} (stays)"
        return f"{self.path} (in the scratch instead)" if os.path.isabs(self.path) else self.path


@dataclass(frozen=True, kw_only=True)
class Scratch:
    """Where and how one launch runs.

    `folder` holds everything and is removed afterwards; `cwd` is the working directory's copy, `argv` and `env` (the
    whole environment) are what the script is started with. In place, `cwd` is the original.
    """

    folder: Path
    cwd: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    in_place: bool
    _home: Path
    _top: Path
    _tree: Path
    _before: Mapping[str, Stamp] = field(repr=False)
    _linked: Mapping[str, Stamp] = field(repr=False)

    def written(self, reported: Iterable[str] = ()) -> tuple[Written, ...]:
        """Files that were created or changed: in the copy, and those `reported` from aboard that lie outside."""
        roots = [self._home] if self.in_place else [self._tree]
        inside = [
            Written(os.path.relpath(self.original(path), self._home), now[0], "outside" if self.in_place else "scratch")
            for root in roots
            for path, now in sorted(_stamps(root).items())
            if self._before.get(path) != now
        ]
        kept = [
            Written(str(self.original(path)), now[0], "scratch")
            for path, now in sorted(_stamps(self.folder / "outside").items())
        ]
        return (*inside, *kept, *self._outside(reported, {written.path for written in inside}))

    def _outside(self, reported: Iterable[str], known: set[str]) -> Iterator[Written]:
        # What was opened for writing need not have been written: the opening may have failed, or nothing followed it.
        began = (self.folder / OWNER).stat().st_ctime_ns
        for path in sorted({os.path.realpath(path) for path in reported}):
            if Path(path).is_relative_to(self.folder) or not _changed_since(path, began):
                continue
            shown = os.path.relpath(path, self._home) if Path(path).is_relative_to(self._home) else path
            if shown not in known:
                yield Written(shown, os.path.getsize(path), "outside")

    def touched(self) -> tuple[str, ...]:
        """Originals behind links that changed while the script ran. A user must be told of each.

        Python's own writing, and PyTorch's, is turned aside before it reaches one; other programs and libraries that
        open files without Python are not seen before.
        """
        return tuple(path for path, before in sorted(self._linked.items()) if _stamp(path) != before)

    def original(self, path: str | Path) -> Path:
        """The user's own path behind one in the scratch; any other is returned as it is."""
        path = Path(path)
        if path.is_relative_to(self._tree):
            return self._top / path.relative_to(self._tree)
        if path.is_relative_to(self.folder / "outside"):
            return Path("/") / path.relative_to(self.folder / "outside")
        return path

    def told(self, text: str) -> str:
        """What the script said, a traceback say, or what was told of it in JSON, with the user's own paths in it."""
        copy, own = f"{self._tree}/", f"{str(self._top).rstrip('/')}/"
        # JSON escapes what is not ASCII.
        return text.replace(copy, own).replace(json.dumps(copy)[1:-1], json.dumps(own)[1:-1])


@contextmanager
def scratch(
    script: Script,
    *,
    in_place: bool = False,
    base: Path | None = None,
    online: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Scratch]:
    """A fresh scratch for one launch, removed afterwards whatever happened in between.

    Regular files are copied, large ones and large trees linked; what lies up to three levels above the working
    directory is linked, so that `../data` is found. A script that lies outside its working directory runs where it
    is. Paths into the working directory are made to point into the copy, in the command line and in PYTHONPATH.

    A command line that names an absolute place outside for what it writes (`--output-dir /data/run1`) raises
    TargetError, unless nothing could be written there: the next launch would resume from it, and a finished run may
    be overwritten. `in_place` runs in the original folder and asks nothing. Experiment trackers stay offline in any
    case; model hubs too, unless `online`. Scratch folders whose owner died are removed on the way.
    """
    if not in_place:
        _ask_about_outputs(script)
    root = Path(base or tempfile.gettempdir()).resolve()
    sweep(root)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    except OSError as error:
        raise _no_room(root, error) from error
    try:
        try:
            _own(folder)
            made = _laid_out(script, folder, in_place=in_place, environment=environment, online=online)
        except OSError as error:
            raise _no_room(root, error) from error
        yield made
    finally:
        _remove(folder)


def rewrite(place: Scratch, sources: Mapping[str, str]) -> None:
    """Put edited sources into a scratch copy. Raises TargetError: an original is never written to, not through a link."""
    for name, text in sources.items():
        file = place.cwd / name
        if place.in_place or not file.parent.resolve().is_relative_to(place.folder.resolve()):
            raise TargetError(
                f"the edit of `{name}` cannot be tried",
                because="the file lies outside the scratch copy of the script's folder",
                hint="start netdyno in the folder that holds the file, without `--in-place`",
            )
        file.unlink(missing_ok=True)  # a link to the original, if it was too large to copy
        with file.open("w", encoding="utf-8", newline="") as out:
            out.write(text)


@contextmanager
def telling(prefix: str) -> Iterator[Path]:
    """A temporary folder for what a script tells, removed afterwards; if we are killed, the next launch removes it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        _own(folder)
        yield folder
    finally:
        _remove(folder)


def sweep(root: Path) -> None:
    """Remove scratch folders, and those for what was told, that killed runs left; those whose owner lives stay."""
    for prefix in (PREFIX, *TELLING):
        for folder in root.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == os.getuid() and _abandoned(folder):
                    _remove(folder)


def _own(folder: Path) -> None:
    (folder / OWNER).write_text(f"{os.getpid()} {_born(os.getpid())}")


def _abandoned(folder: Path) -> bool:
    try:
        process, born = (folder / OWNER).read_text().split()
        return _born(int(process)) != born
    except (OSError, ValueError):  # its owner has only begun, or was killed while it began
        return time.time() - folder.stat().st_mtime > ABANDONED_S


def _born(process: int) -> str:
    """When the process began, which tells it from a later one with the same number; empty when there is none."""
    try:
        return f"{psutil.Process(process).create_time():.2f}"
    except psutil.Error:
        return ""


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():  # a script may have taken away its own right to write
        for inside, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                os.chmod(inside, stat.S_IRWXU)
        shutil.rmtree(folder, ignore_errors=True)


def _no_room(root: Path, error: OSError) -> TargetError:
    return TargetError(
        f"cannot make a scratch copy in `{root}`",
        because=f"{error.strerror or error}" + (f" (`{error.filename}`)" if error.filename else ""),
        hint="point TMPDIR to a folder with some 300 MB free, or say `--in-place` to run without a copy",
    )


def _laid_out(script: Script, folder: Path, *, in_place: bool, environment: Mapping[str, str], online: bool) -> Scratch:
    home = script.cwd
    levels = min(LEVELS_ABOVE, len(home.parents))
    top = home.parents[levels - 1] if levels else home
    tree = folder / "tree"
    work = tree / home.relative_to(top)
    for inside in ("tmp", "trackers", "outside"):
        (folder / inside).mkdir()
    if in_place:
        before, linked, argv, work = _stamps(home), {}, script.argv, home
    else:
        work.mkdir(parents=True)
        linked = _mirrored(home, work, top=top)
        _linked_above(home, top=top, tree=tree)
        before = _stamps(tree)
        argv = tuple(_moved_arguments(script, work))
    layout = {"top": str(top), "tree": str(tree), "home": str(home), "in_place": in_place}
    (folder / LAYOUT).write_text(json.dumps(layout))
    return Scratch(
        folder=folder,
        cwd=work,
        argv=argv,
        env=_environment(environment, folder, home=home, work=work, online=online),
        in_place=in_place,
        _home=home,
        _top=top,
        _tree=tree,
        _before=before,
        _linked=linked,
    )


@dataclass
class _Folder:
    """What lies in a folder of the working directory; `whole`: it is linked as it is, without a look inside."""

    path: str
    whole: bool = False
    source: bool = False
    entries: int = 0
    files: list[tuple[int, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    inside: "list[_Folder]" = field(default_factory=list)

    @property
    def linked(self) -> bool:
        return self.whole or (self.entries > SAMPLES and not self.source)


def _surveyed(home: Path) -> _Folder:
    """All of the working directory; of a whole home, or of everything, only what lies directly in it."""
    found = _Folder(str(home))
    for entry in _entries(found.path, None):
        _sort_in(entry, found, 0 if _is_broad(home) else ENTRIES)
    return found


def _is_broad(home: Path) -> bool:
    """True where much lies that has nothing to do with the script, and changes while it runs."""
    return home in (Path.home(), Path(home.anchor))


def _looked_into(path: str, left: int) -> _Folder:
    """A folder, as far as `left` entries go."""
    found = _Folder(path)
    entries = _entries(path, left + 1)
    found.entries = len(entries)
    if len(entries) > left or os.path.ismount(path) or ENVIRONMENTS & {entry.name for entry in entries}:
        found.whole = True
        return found
    for entry in entries:
        _sort_in(entry, found, left - found.entries)
    return found


def _sort_in(entry: "os.DirEntry[str]", found: _Folder, left: int) -> None:
    if entry.name in LEFT_OUT or entry.name.startswith(PREFIX):
        return
    with contextlib.suppress(OSError):  # it may be gone by now
        if entry.is_symlink():
            found.links.append(entry.path)
        elif entry.is_dir():
            whole = entry.name in LINKED_WHOLE or left <= 0
            inner = _Folder(entry.path, whole=True) if whole else _looked_into(entry.path, left)
            found.inside.append(inner)
            found.entries += inner.entries
            found.source |= inner.source
        elif entry.is_file():
            found.source |= entry.name.endswith(".py")
            found.files.append((entry.stat().st_size, entry.path))


def _entries(folder: str, most: int | None) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, most), key=lambda entry: entry.name)
    except OSError:
        return []


def _mirrored(home: Path, work: Path, *, top: Path) -> dict[str, Stamp]:
    """Fill `work` with the like of `home`. Returns the originals that are linked, as they are now."""

    def place(path: str) -> str:
        return str(work / os.path.relpath(path, home))

    folders, whole = _parted(_surveyed(home))
    linked: dict[str, Stamp] = {}
    for folder in folders[1:]:
        os.mkdir(place(folder.path))
    purse = _Purse()
    for size, path in sorted(file for folder in folders for file in folder.files):  # the small ones first: the source
        if not purse.copied(path, place(path), size):
            os.symlink(path, place(path))
            linked |= _print_of(path)
    for path in whole:
        os.symlink(path, place(path))
        if os.path.basename(path) not in LINKED_WHOLE and not _is_broad(home):
            linked |= _stamps(Path(path), COMPARED)
    for path in (link for folder in folders for link in folder.links):
        target = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        os.symlink(_link_text(path, target, home=home, work=work, top=top), place(path))
        if os.path.isfile(target) and not Path(target).is_relative_to(home):
            linked |= _print_of(target)
    for folder in reversed(folders[1:]):  # last, as every entry made in a folder moves its date
        with contextlib.suppress(OSError):
            shutil.copystat(folder.path, place(folder.path))
            os.chmod(place(folder.path), stat.S_IRWXU)
    return linked


def _parted(home: _Folder) -> tuple[list[_Folder], list[str]]:
    """Folders to make, outer before inner, and those to link."""
    folders, whole = [home], []
    for folder in folders:
        for inner in folder.inside:
            if inner.linked:
                whole.append(inner.path)
            else:
                folders.append(inner)
    return folders, whole


def _link_text(path: str, target: str, *, home: Path, work: Path, top: Path) -> str:
    """What the copy of a link says: within the mirror the copy's own file, else the original."""
    text = os.readlink(path)
    if Path(target).is_relative_to(home):
        return str(work / os.path.relpath(target, home)) if os.path.isabs(text) else text
    return text if not os.path.isabs(text) and Path(target).is_relative_to(top) else target


def _linked_above(home: Path, *, top: Path, tree: Path) -> None:
    below = home
    while below != top:
        above = below.parent
        entries = _entries(str(above), ENTRIES_ABOVE + 1)
        for entry in entries if len(entries) <= ENTRIES_ABOVE else ():
            if entry.name != below.name and entry.name not in LEFT_OUT and not entry.name.startswith(PREFIX):
                os.symlink(entry.path, tree / above.relative_to(top) / entry.name)
        below = above


class _Purse:
    """What may still be copied."""

    def __init__(self) -> None:
        self.left = COPIED_IN_ALL
        self.clones = True

    def copied(self, source: str, target: str, size: int) -> bool:
        """True when the file was copied; False when it has to be linked."""
        try:
            if self.clones and size and self._cloned(source, target):
                return True
            if size > COPIED_EACH or size > self.left:
                return False
            shutil.copyfile(source, target)
            shutil.copystat(source, target)
        except FileNotFoundError:  # it is gone, as it would be for the script
            return True
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            # Only its owner may read it, or it is none that can be copied: a link fails where the original would.
            with contextlib.suppress(OSError):
                os.unlink(target)
            return False
        self.left -= size
        return True

    def _cloned(self, source: str, target: str) -> bool:
        with open(source, "rb") as read, open(target, "wb") as write:
            try:
                fcntl.ioctl(write, FICLONE, read.fileno())
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS):
                    raise
                self.clones = False
        if not self.clones:
            os.unlink(target)
            return False
        shutil.copystat(source, target)
        return True


def _stamps(root: Path, most: int = 5 * ENTRIES) -> dict[str, Stamp]:
    """Size and date of every regular file below, links not followed; of a very large tree, the part that is met first."""
    found: dict[str, Stamp] = {}
    for folder, inside, files in os.walk(root):
        inside[:] = sorted(name for name in inside if name not in LEFT_OUT and not name.startswith(PREFIX))
        for name in files:
            found |= _print_of(os.path.join(folder, name))
        if len(found) > most:
            break
    return found


def _print_of(path: str) -> dict[str, Stamp]:
    stamp = _stamp(path)
    return {path: stamp} if stamp is not None else {}


def _stamp(path: str) -> Stamp | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _changed_since(path: str, began: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    # Its last change, not its date: a copy brings an old date along.
    return stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= began


def _moved_arguments(script: Script, work: Path) -> Iterator[str]:
    for index, word in enumerate(script.argv):
        if index == 0:  # the interpreter stays; an executable script of the user's is copied like any other
            own = script.file is not None and word == str(script.file)
            yield _moved(word, script.cwd, work) if own else word
        elif _is_outside(word, script):
            yield str(script.file)
        else:
            before, equals, after = word.rpartition("=")
            yield f"{before}{equals}{_moved(after, script.cwd, work)}"


def _moved(word: str, home: Path, work: Path) -> str:
    if os.path.isabs(word) and Path(os.path.normpath(word)).is_relative_to(home):
        tail = "/" if word.endswith("/") else ""
        return str(work / Path(os.path.normpath(word)).relative_to(home)) + tail
    return word


def _is_outside(word: str, script: Script) -> bool:
    if script.file is None or script.file.is_relative_to(script.cwd):
        return False
    return os.path.normpath(script.cwd / word) == str(script.file)


# A name that ends so says where something is written. `checkpoint` and `run` alone may as well name what is read.
_WRITES = re.compile(
    r"(^|_)((outputs?|out|saves?|logs?|logging|results?)(_?(dir|directory|path|folder|root|file|to))?"
    r"|(work|runs?|exp|exports?|ckpts?|checkpoints?|snapshots?|tb|tensorboard|default_root)_?(dir|directory|folder|root))$"
)


def _ask_about_outputs(script: Script) -> None:
    for name, value in _named_values(script.argv):
        plain = name.lstrip("-").lower().replace("-", "_").replace(".", "_")
        if not (name == "-o" or _WRITES.search(plain)) or not _would_be_written(value, script.cwd):
            continue
        raise TargetError(
            f"`{name}` writes to `{value}`, outside the working directory",
            because="the script is started more than once: a launch would resume from what the one before left there, "
            "or overwrite what a real run did",
            hint=f"give a relative path while on the dyno, such as `{name} out`, or say `--in-place` to let it write there",
        )


def _named_values(argv: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for word, following in zip(argv[1:], (*argv[2:], ""), strict=True):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        elif word.startswith("-"):
            yield word, following


def _would_be_written(value: str, home: Path) -> bool:
    """True for an absolute path outside that exists or could be made. `/dev/null` keeps nothing."""
    path = Path(os.path.normpath(value))
    if not os.path.isabs(value) or path.is_relative_to(home) or path.is_relative_to("/dev"):
        return False
    nearest = next(place for place in (path, *path.parents) if place.exists())
    return os.access(nearest, os.W_OK)


def _environment(given: Mapping[str, str], folder: Path, *, home: Path, work: Path, online: bool) -> dict[str, str]:
    """The environment of a launch: trackers stay at home, compiled code is found again, the rest is the user's."""
    made = dict(given) | _trackers(given, folder / "trackers")
    made["PYTHONDONTWRITEBYTECODE"] = "1"
    made["GIT_OPTIONAL_LOCKS"] = "0"  # `git status` otherwise refreshes the index behind the link
    made["PWD"] = str(work)
    if "PYTHONPATH" in given:
        entries = given["PYTHONPATH"].split(os.pathsep)
        made["PYTHONPATH"] = os.pathsep.join(_moved(entry, home, work) for entry in entries)
    if len(str(folder / "tmp")) <= LONGEST_TEMPORARY:
        # PyTorch keeps compiled graphs below the temporary folder. They decide how long a start takes, not what is
        # trained, and a real run finds them too.
        kept = os.path.join(given.get("TMPDIR") or tempfile.gettempdir(), f"torchinductor_{_user()}")
        made.setdefault("TORCHINDUCTOR_CACHE_DIR", kept)
        made["TMPDIR"] = str(folder / "tmp")
    if not online:
        made |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return made


def _user() -> str:
    try:
        return re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())  # as PyTorch names that folder
    except (KeyError, OSError):
        return "unknown"


def _trackers(given: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Offline, not disabled: what logging costs belongs to the step. Where a user has disabled one, it stays so."""
    silent = {"disabled", "offline", "dryrun", "debug", "local"}
    modes = {
        name: given[name] if given.get(name, "").lower() in silent else "offline"
        for name in ("WANDB_MODE", "NEPTUNE_MODE", "SWANLAB_MODE")
    }
    return (
        modes
        | {
            "WANDB_DIR": str(folder),
            "SWANLAB_LOG_DIR": str(folder / "swanlab"),
            "MLFLOW_TRACKING_URI": f"file:{folder / 'mlruns'}",
            "MLFLOW_ALLOW_FILE_STORE": "true",  # later versions refuse a folder without it, and a database takes seconds to make
            "COMET_START_ONLINE": "0",
            "COMET_MODE": "OFFLINE",
            "COMET_OFFLINE_DIRECTORY": str(folder / "comet"),
            "CLEARML_OFFLINE_MODE": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }
    )
