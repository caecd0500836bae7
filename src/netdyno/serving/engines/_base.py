"""What every engine promises, and how one that is a script of its own is started, watched and ended."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import netdyno
from netdyno import plugins
from netdyno.errors import NetdynoError
from netdyno.listening import is_loopback
from netdyno.records.deployment import Level, Manifest
from netdyno.runtimes import _base as runtimes
from netdyno.shipping.package import Package

START_S = 180.0  # Ray takes more than a minute on a busy machine
END_S = 15.0


class Wanted(NamedTuple):
    """How a package is to be put on a server."""

    host: str = "127.0.0.1"
    port: int = 8000
    largest: int = 8
    delay_s: float = 0.0
    workers: int = 1


class Engine(Protocol):
    """A server. A frozen dataclass without fields; `script` is the file of those that is run, None for a layout only.

    Promises: what it writes names nothing but the package and itself; when it cannot run here it says what it needs.
    """

    level: ClassVar[Level]
    needs: ClassVar[tuple[str, ...]]
    script: ClassVar[str | None]
    ready: ClassVar[str]  # the path that answers 200 once it is ready

    def unavailable(self) -> str | None:
        """What is missing in this interpreter, in words that say how to have it."""

    def files(self, package: Package, wanted: Wanted) -> Mapping[str, bytes]:
        """What it needs, by path within its folder."""

    def environment(self, python: str) -> Mapping[str, str]:
        """What its process finds in its environment besides ours."""


@cache
def catalogue() -> dict[str, type[Any]]:
    """Every engine by id."""
    return {
        name: kind for name, kind in plugins.classes("serving.engines").items() if not isinstance(kind, plugins.Broken)
    }


def named(name: str) -> Any:
    """The engine of that id. Raises NetdynoError for an unknown one."""
    kind = catalogue().get(name)
    if kind is None:
        raise NetdynoError(
            f"cannot serve with `{name}`",
            because="there is no such engine",
            hint=f"there are {', '.join(catalogue())}",
        )
    return kind()


def write(engine: Engine, package: Package, folder: Path, wanted: Wanted) -> list[Path]:
    """Write an engine's files into a folder of its own. Raises NetdynoError when something else is there."""
    if folder.exists() and any(folder.iterdir()):
        raise NetdynoError(
            f"cannot write to `{folder}`", because="there are files in it", hint="name a folder that is empty or new"
        )
    paths = []
    for name, content in engine.files(package, wanted).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return paths


def artifact(package: Package, below: str) -> dict[str, bytes]:
    """The package's own artefact as files of another layout."""
    return {
        f"{below}/{path.relative_to(package.artifact).as_posix()}": path.read_bytes()
        for path in sorted(package.artifact.rglob("*"))
        if path.is_file()
    }


def lacking(needs: tuple[str, ...], extra: str) -> str | None:
    """What cannot be imported, and what to install."""
    return runtimes.missing(needs, extra=extra)


def single_input(manifest: Manifest, engine: str) -> None:
    """Raises NetdynoError for models that the engine's layout cannot describe."""
    unknown = [port.name for port in manifest.signature.inputs if any(size is None for size in port.shape)]
    if unknown:
        raise NetdynoError(
            f"cannot lay `{manifest.name}` out for {engine}",
            because=f"`{unknown[0]}` has rows of any length, and batches are put together from rows that are alike",
            hint="deploy it with rows of one length, or serve it with `--engine own`",
        )


def serve(
    engine: Engine,
    package: Package,
    wanted: Wanted,
    *,
    python: str = sys.executable,
    for_s: float | None = None,
    said: Callable[[str], None],
) -> None:
    """Run an engine's script until it ends or we are told to end, or for so long. Raises NetdynoError when it does not become ready."""
    assert engine.script is not None
    with tempfile.TemporaryDirectory(prefix="netdyno-engine-") as folder, tempfile.TemporaryFile() as words:
        write(engine, package, Path(folder) / "engine", wanted)
        child = subprocess.Popen(
            (python, engine.script),
            cwd=Path(folder) / "engine",
            env=_environment(engine, python),
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,  # it has children of its own: they are ended together
        )
        url = f"http://{wanted.host}:{wanted.port}"
        try:
            _until_ready(child, f"{url}{engine.ready}", words)
            said(url)
            with suppress(subprocess.TimeoutExpired):
                child.wait(for_s)
        except KeyboardInterrupt:
            pass
        finally:
            _end(child)


def _environment(engine: Engine, python: str) -> dict[str, str]:
    # The script imports netdyno to load the package; another interpreter need not have it installed.
    source = str(Path(netdyno.__file__).parent.parent)
    path = os.pathsep.join(part for part in (source, os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, **engine.environment(python)}


def _until_ready(child: "subprocess.Popen[bytes]", url: str, words: Any) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if child.poll() is not None:
            break
        with suppress(OSError, urllib.error.URLError):
            with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310  our own address
                if answer.status == 200:
                    return
        time.sleep(0.2)
    words.seek(max(0, words.seek(0, os.SEEK_END) - 4000))
    lines = [line for line in words.read().decode(errors="replace").splitlines() if line.strip()]
    ended = child.poll()
    raise NetdynoError(
        "the engine did not become ready",
        because=(f"it ended with status {ended}" if ended is not None else f"it took longer than {START_S:.0f} s")
        + (f": {lines[-1][:300]}" if lines else ""),
        hint="`--write ENGINE FOLDER` writes its script, to be run by hand",
    )


def _end(child: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        if child.poll() is not None and not _others(child.pid):
            return


def _others(group: int) -> bool:
    """Whether a process of the group is still there."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


__all__ = ["Engine", "Wanted", "catalogue", "is_loopback", "named", "serve", "write"]
