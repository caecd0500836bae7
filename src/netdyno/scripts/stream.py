"""What those aboard told: the messages of every process of a ride, read while they are still being written."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

LATEST = b'{"is": "tick"'  # cumulative, so that only the last one counts


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="hello"):
    """The heartbeat of a process: PyTorch is loaded, and somebody rides aboard."""

    pid: int
    ppid: int
    rank: str | None = None
    argv: tuple[str, ...] = ()
    python: str = ""
    torch: str = ""
    executable: str = ""
    cwd: str | None = None
    at: float = 0.0


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a patch point fired, and if not, why."""

    ok: bool
    why: str | None = None


class Patches(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="patches"):
    """The start-up self-test of the patch points."""

    points: dict[str, Point] = {}


class OptimizerSeen(msgspec.Struct, frozen=True, kw_only=True):
    """An optimizer that stepped."""

    index: int
    kind: str = ""
    settings: dict[str, Any] = {}
    steps: int = 0
    skipped: int = 0


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """Updates are so short that only `watched` in a row `of` so many are watched closely."""

    watched: int
    of: int


class LineSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the user's code that samples of the training thread fell on."""

    file: str
    line: int
    function: str = ""
    phase: str = ""
    samples: int = 0
    framework: str | None = None


class Tick(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="tick"):
    """All that was seen until now. Seconds; the phases sum to `wall_s`, in which `watched` updates were finished."""

    updates: int = 0
    iterations: int = 0
    counted_by: str = ""
    cycle: int | None = None
    events: dict[str, int] = {}
    optimizers: tuple[OptimizerSeen, ...] = ()
    phases: dict[str, tuple[float, float, float]] = {}
    wall_s: float = 0.0
    own_s: float = 0.0
    update_s: tuple[float, ...] = ()
    lines: tuple[LineSeen, ...] = ()
    samples: int = 0
    watched: int | None = None
    burst: Burst | None = None
    troubles: tuple[dict[str, str], ...] = ()
    facts: dict[str, Any] | None = None
    vitals: dict[str, Any] | None = None
    losses: tuple[float | None, ...] = ()
    first_loss: float | None = None
    last_loss: float | None = None
    checksum: str | None = None
    threads: int | None = None
    peak_rss: int | None = None
    training_thread: Any = None


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="stopped"):
    """The end of a process's ride: `updates`, `seconds`, `ended`, `failed` or `ordered`."""

    reason: str
    updates: int = 0
    says: str = ""


class Trouble(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="trouble"):
    """A failure of those aboard, not of the script."""

    where: str
    says: str = ""


class Wrote(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="wrote"):
    """Files that were opened for writing."""

    files: tuple[str, ...] = ()


Message = Hello | Patches | Tick | Stopped | Trouble | Wrote
_read_message = msgspec.json.Decoder(Message).decode


class Process(NamedTuple):
    """One process of the script, as it told of itself. A process that exec'ed another program has the last one's story."""

    pid: int
    hello: Hello | None = None
    patches: Patches | None = None
    tick: Tick | None = None
    stopped: Stopped | None = None
    troubles: tuple[Trouble, ...] = ()
    wrote: tuple[str, ...] = ()

    @property
    def updates(self) -> int:
        """Updates finished, as far as told."""
        return max(self.tick.updates if self.tick else 0, self.stopped.updates if self.stopped else 0)

    @property
    def rank(self) -> str | None:
        """What a distributed launcher called it."""
        return self.hello.rank if self.hello else None


class Stream(NamedTuple):
    """Everything that was told during a ride."""

    processes: tuple[Process, ...] = ()

    @property
    def training(self) -> Process | None:
        """The process that trains: it has updates, rank 0 goes before other ranks, more updates before fewer."""
        told = [process for process in self.processes if process.hello is not None]
        return max(told, key=_trains_most, default=None)

    @property
    def troubles(self) -> tuple[Trouble, ...]:
        """Our own failures aboard, of all processes."""
        return tuple(trouble for process in self.processes for trouble in process.troubles)

    @property
    def wrote(self) -> tuple[str, ...]:
        """Files that any process opened for writing, each once."""
        return tuple(dict.fromkeys(file for process in self.processes for file in process.wrote))

    @property
    def stopped(self) -> int:
        """How many processes told the end of their ride."""
        return sum(process.stopped is not None for process in self.processes)

    @property
    def losses(self) -> tuple[float, ...]:
        """The loss of each update of the process that trains, if that was asked for; NaN where it was not finite."""
        told = self.training.tick.losses if self.training and self.training.tick else ()
        return tuple(math.nan if loss is None else loss for loss in told)

    @property
    def updates(self) -> int:
        """Updates of the process that trains."""
        return self.training.updates if self.training else 0


def _trains_most(process: Process) -> tuple[bool, bool, int, int, float]:
    assert process.hello is not None
    iterations = process.tick.iterations if process.tick else 0
    first = process.rank in (None, "0")
    # Of processes that did the same, the one that came first: it started the others.
    return process.updates > 0, first, process.updates, iterations, -process.hello.at


def read(folder: Path, *, told: Callable[[str], str] = str) -> Stream:
    """What stands in a ride's folder now. A line that is still being written, or was cut by a kill, is left out.

    `told` makes the author's own paths of those in a scratch copy.
    """
    files = sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem) if file.stem.isdigit() else 0)
    return Stream(tuple(_process(file, told) for file in files if file.stem.isdigit()))


def _process(file: Path, told: Callable[[str], str]) -> Process:
    found = Process(pid=int(file.stem))
    text = told(file.read_text(encoding="utf-8", errors="replace"))
    lines = text.encode().split(b"\n")[:-1]  # what follows the last line break is not whole
    for message in _messages(lines):
        match message:
            case Hello():
                found = found._replace(hello=message)
            case Patches():
                found = found._replace(patches=message)
            case Tick():
                found = found._replace(tick=message)
            case Stopped():
                found = found._replace(stopped=message)
            case Trouble():
                found = found._replace(troubles=(*found.troubles, message))
            case Wrote():
                found = found._replace(wrote=(*found.wrote, *message.files))
    return found


def _messages(lines: list[bytes]) -> Iterator[Message]:
    last = max((number for number, line in enumerate(lines) if line.startswith(LATEST)), default=-1)
    for number, line in enumerate(lines):
        if line.startswith(LATEST) and number != last:
            continue
        try:
            yield _read_message(line)
        except msgspec.DecodeError as error:
            # Never silently: a story with a hole in it must say so.
            yield Trouble(where="stream", says=f"a line could not be read: {error}")
