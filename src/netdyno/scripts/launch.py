"""A script is started by its own command line with somebody aboard, followed until it ends, and ended with all it started.

How one gets aboard. A folder with a `sitecustomize` goes first on PYTHONPATH; every Python process of the script
inherits that. What was measured where the interpreter is told to ignore it:

- `-E` and `-I` ignore PYTHONPATH. The same interpreter without the variables that begin with PYTHON, and for `-I` with
  `-s -P`, behaves alike and opens the door: the command is reworded so. What it starts inherits the door too.
- `-S` runs no `sitecustomize`, and a `.pth` file counts only inside site-packages, which are not ours to write to. The
  script is then run by a few lines that open the door first and stand in for `python file` or `python -m module`;
  what such a script starts with the same options stays unobserved.
- A Python that the script itself starts with one of these options cannot be reached. It is noticed by its having
  PyTorch in memory and not telling so, and "could not attach" is said.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from netdyno.aboard.config import VARIABLE, Config, in_words
from netdyno.errors import TargetError
from netdyno.interventions._base import environment_of
from netdyno.progress import Event, Listener, silent
from netdyno.records.trial import Change
from netdyno.scripts.scratch import Scratch, rewrite, scratch, telling
from netdyno.scripts.stream import Stream, read
from netdyno.targets.script import Script

Clock = Callable[[], float]

ABOARD = Path(__file__).resolve().parents[1] / "aboard"
SITE = ABOARD / "site"
POLL_S = 0.25  # a script's end is noticed within so much; looking more often would cost the script's time
LOOK_S = 2.0  # between two looks through /proc for PyTorch in processes that nobody boarded
OURS = ("updates", "seconds", "ordered")  # the ends that netdyno gave
TERM_S = 2.0  # between asking by SIGTERM and SIGKILL: enough to remove a lock file
SWEEPS = 50  # who forks as fast as we kill is met again; 50 rounds of 10 ms bring any tree down
LONGEST_HASH_SEED = 2**32 - 1
LONG_WITH_VALUE = "--check-hash-based-pycs"
MOST_WORDS = 4000  # characters of last words: a long traceback, not a log
HEARTBEAT_S = 600.0  # data may be prepared before torch is imported; ten minutes of it are more than any script met


class Ride(NamedTuple):
    """A ride that is over. `reason` is the trained process's own word, or `killed` when it gave none.

    `startup_s` is the time from the start to the first update, or to the end if there was none. `wrote` holds the files
    that the script wrote, `touched` the originals behind links that changed meanwhile.
    """

    stream: Stream
    reason: str
    status: int | None
    words: str | None
    wall_s: float
    startup_s: float
    wrote: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """True when the ride ended where it should: at its budget, on order, or with the script's own good end."""
        return self.reason in ("updates", "seconds", "ordered") or (self.reason == "ended" and self.status == 0)


class Launched:
    """A script that was started. It leads a session of its own; `end` leaves nobody of it behind."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        folder: Path,
        *,
        name: str,
        told: Callable[[str], str] = str,
        clock: Clock = time.monotonic,
    ) -> None:
        self.process = process
        self.folder = folder
        self.name = name
        self._told = told
        self._clock = clock
        self._killed = False
        self._gone = False

    @property
    def alive(self) -> bool:
        """True while the first process runs."""
        return self.process.poll() is None

    def stream(self) -> Stream:
        """What those aboard told until now."""
        return read(self.folder, told=self._told)

    def members(self) -> list[int]:
        """Every process that belongs to the script, in whatever group or session it went."""
        if not self._gone:
            found = _belonging(self.process.pid, self.folder)
            # Once nobody is left the kernel may give the session's number to somebody else.
            self._gone = not found and self.process.returncode is not None
            return found
        return []

    def end(self, grace_s: float = 0.0) -> None:
        """Wait `grace_s` for the script to end by itself, then ask, then kill. Safe to call twice."""
        self._wait(grace_s)
        if self._everybody():
            self._killed = self.alive
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # who is frozen cannot hear
            self._wait(TERM_S)
        for _ in range(SWEEPS):
            if not self._everybody():
                break
            self._signal(signal.SIGKILL)
            time.sleep(0.01)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(TERM_S)

    def _wait(self, patience_s: float) -> None:
        end = self._clock() + patience_s
        while self._everybody() and self._clock() < end:
            time.sleep(min(POLL_S, patience_s))

    def _everybody(self) -> list[int]:
        self.process.poll()  # a zombie of ours would count as somebody
        return self.members()

    def _signal(self, number: int) -> None:
        for process in self.members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)

    def words(self) -> str | None:
        """The end of what the script wrote: of its errors, or else of its output. Paths are the author's own."""
        for name in ("stderr", "stdout"):
            text = _tail(self.folder / name).strip()
            if text:
                return self._told(text)
        return None

    def failure(self) -> TargetError | None:
        """Why the script failed by itself, as far as it told; None when it did not fail, or was ended."""
        status = self.process.poll()
        stopped = [process.stopped for process in self.stream().processes if process.stopped]
        if not status or self._killed or any(word.reason in OURS for word in stopped):
            return None
        words = self.words() or ""
        updates = self.stream().updates
        when = f"after {updates} updates" if updates else "before its first update"
        return TargetError(
            f"`{self.name}` failed {when}",
            because=f"it {_ended(status)}{_sentence(words)}{_place(words)}",
            hint="start it without netdyno first; its last words are in the report"
            if words
            else "start it without netdyno first; it wrote nothing to its error output",
        )

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def launch(
    script: Script,
    *,
    folder: Path,
    scratch: Scratch | None = None,
    recipe: Iterable[Change] = (),
    clock: Clock = time.monotonic,
    **wishes: object,
) -> Launched:
    """Start a script with somebody aboard; `wishes` are fields of `aboard.config.Config`.

    `folder` takes what is told, and what the script prints. The thread that calls this should outlive the script
    when it is the main thread: the kernel ends the script with it.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wishes = {**wishes, "recipe": written_down(recipe), "scratch": str(scratch.folder) if scratch is not None else None}
    config = Config(folder=str(folder), lab=_lab(), **wishes)  # type: ignore[arg-type]
    where = scratch if scratch is not None else script
    environment = dict(scratch.env if scratch is not None else os.environ) | environment_of(recipe)
    argv, environment = reworded(where.argv, environment)
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            process = subprocess.Popen(
                argv,
                cwd=where.cwd,
                env=with_door(environment, config),
                stdin=subprocess.DEVNULL,
                stdout=out,  # files, not pipes: nobody must read for the script to go on
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise TargetError(
                f"cannot start `{script.name}`",
                because=f"`{argv[0]}` does not run: {error.strerror}",
                hint="check the command by starting it without netdyno",
            ) from error
    told = scratch.told if scratch is not None else str
    return Launched(process, folder, name=script.name, told=told, clock=clock)


def written_down(recipe: Iterable[Change]) -> tuple[Mapping[str, Any], ...]:
    """A recipe as it goes aboard."""
    return tuple({"id": change.id, "settings": dict(change.settings)} for change in recipe)


def _lab() -> int | None:
    # The kernel ties a child to the thread that started it, and another thread than the main one may end any time.
    return os.getpid() if threading.current_thread() is threading.main_thread() else None


def with_door(environment: Mapping[str, str], config: Config) -> dict[str, str]:
    """The variables under which a script is observed, and starts alike each time."""
    path = environment.get("PYTHONPATH")
    found = {
        **environment,
        "PYTHONPATH": f"{SITE}{os.pathsep}{path}" if path else str(SITE),
        VARIABLE: in_words(config),
    }
    if config.seed is not None:
        found.setdefault("PYTHONHASHSEED", str(config.seed % LONGEST_HASH_SEED))
    return found


def opened(
    argv: Sequence[str], recipe: Iterable[Change], *, folder: str | Path, environment: Mapping[str, str] = os.environ
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and the variables under which a script runs as its author would, with the changes of a recipe.

    Nothing is seeded, watched or stopped, and the script outlives us.
    """
    recipe = tuple(recipe)
    config = Config(folder=str(folder), seed=None, hz=0.0, watch=False, recipe=written_down(recipe))
    command, without = reworded(argv, dict(environment) | environment_of(recipe))
    return command, with_door(without, config)


class Options(NamedTuple):
    """The options of an interpreter's command line, and what follows them."""

    letters: str
    words: tuple[str, ...]
    rest: tuple[str, ...]


def options(argv: Sequence[str]) -> Options:
    """Take `python -E -u train.py …` apart. What is not an interpreter has no options.

    >>> options(("python3", "-uE", "-W", "error", "train.py", "-I"))
    Options(letters='uEW', words=('-uE', '-W', 'error'), rest=('train.py', '-I'))
    """
    if not re.fullmatch(r"python[\d.]*", os.path.basename(argv[0])):
        return Options("", (), tuple(argv[1:]))
    letters, at = "", 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "-":
        word = argv[at]
        # `-m` and `-c` end the options; what is glued to them, or to -W and -X, is a value.
        own = re.match(r"-([abd-ln-zA-VYZ]*)([mcWX]?)(.*)", word)
        if word.startswith("--"):
            own = None
        if own is not None and own[2] in ("m", "c") and own[2]:
            return Options(
                letters + own[1], tuple(argv[1:at]) + ((f"-{own[1]}",) if own[1] else ()), _last(own, argv[at:])
            )
        letters += own[1] + own[2] if own is not None else ""
        takes_next = word == LONG_WITH_VALUE or (own is not None and own[2] and not own[3])
        at += 2 if takes_next else 1
    return Options(letters, tuple(argv[1:at]), tuple(argv[at:]))


def _last(own: "re.Match[str]", words: Sequence[str]) -> tuple[str, ...]:
    return (f"-{own[2]}", *((own[3],) if own[3] else ()), *words[1:])


def reworded(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The same command for an interpreter that lets somebody aboard: see the top of this file."""
    found = options(argv)
    without = dict(environment)
    if set("EI") & set(found.letters):
        without = {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
    words = [_without(word, "EI") if word.startswith("-") else word for word in found.words]
    kept = tuple(word for word in words if word != "-")
    if "I" in found.letters:
        kept = ("-s", "-P", *kept)
    if "S" in found.letters:
        return (argv[0], *kept, "-c", BY_HAND, str(ABOARD), *found.rest), without
    return (argv[0], *kept, *found.rest), without


def _without(word: str, letters: str) -> str:
    head = re.match(r"-[abd-ln-zA-VYZ]*", word)
    if head is None or word.startswith("--"):
        return word
    return re.sub(f"[{letters}]", "", head[0]) + word[head.end() :]


# Opens the door, then becomes the script: its arguments, its path, its `__main__`.
BY_HAND = """
import os, runpy, sys
aboard, *words = sys.argv[1:]
safe = sys.flags.safe_path
sys.path.insert(0, os.path.join(aboard, "site")); import sitecustomize
if sys.path and sys.path[0] == "": del sys.path[0]
if words[0] == "-m":
    if not safe: sys.path.insert(0, os.getcwd())
    sys.argv[:] = words[1:]; runpy.run_module(words[1], run_name="__main__", alter_sys=True)
elif words[0] == "-c":
    if not safe: sys.path.insert(0, "")
    sys.argv[:] = ["-c", *words[2:]]; exec(words[1])
else:
    if not safe: sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
    sys.argv[:] = words; runpy.run_path(words[0], run_name="__main__")
"""


def ride(
    script: Script,
    *,
    in_place: bool = False,
    online: bool = False,
    recipe: Iterable[Change] = (),
    sources: Mapping[str, str] | None = None,
    listener: Listener = silent,
    patience_s: float = HEARTBEAT_S,
    clock: Clock = time.monotonic,
    forgiving: bool = False,
    **wishes: object,
) -> Ride:
    """Run a script in a scratch copy with somebody aboard until its budget is spent or it ends; nobody of it is left.

    `sources` are edited files, by their paths in its folder. Raises TargetError when nobody could get aboard, or when
    the script failed before its first update; one that failed later, or with a `forgiving` caller, has `reason` "failed".
    The script has `patience_s` seconds to the first sign of PyTorch, and with a wish for `seconds` that many more, and grace.
    """
    recipe = tuple(recipe)
    with (
        scratch(script, in_place=in_place, online=online) as place,
        telling("netdyno-ride-") as folder,
    ):
        rewrite(place, sources or {})
        with launch(script, folder=folder, scratch=place, recipe=recipe, clock=clock, **wishes) as launched:
            following = Following(launched, patience_s=patience_s, listener=listener, clock=clock, **wishes)
            following.to_the_end()
            launched.end()
            failure = launched.failure()
            if failure is not None and not following.stream.updates and not (forgiving and following.stream.training):
                raise failure
            if following.stream.training is None:
                raise could_not_attach(launched)
            return _over(following, place)


class Following:
    """A script that is followed to the end of its ride: its progress told, its time kept from outside."""

    def __init__(
        self,
        launched: Launched,
        *,
        patience_s: float = HEARTBEAT_S,
        listener: Listener = silent,
        clock: Clock = time.monotonic,
        **wishes: object,
    ) -> None:
        self.launched = launched
        self.patience_s = patience_s
        self.stream = Stream()
        self.first_update: float | None = None
        self._config = Config(folder="", **{**wishes, "recipe": ()})  # type: ignore[arg-type]
        self._listener = listener
        self._clock = clock
        self.began = self._looked = clock()
        self._last: tuple[int, int, bool] | None = None
        self._sign = self.began  # of the latest begin or end that grace is measured from
        self._sizes: dict[Path, int] = {}

    def to_the_end(self) -> None:
        """Come back when the script is over or out of grace; raises TargetError when nobody gets aboard."""
        while not self.is_over(self._clock()):
            time.sleep(POLL_S)
        self._read()

    def is_over(self, now: float) -> bool:
        """Look once: True when nobody is left, or who is left had its grace."""
        self._read()
        alive = self.launched.alive
        heard = self.stream.training is not None
        # Who begins later has its whole time, and who stops has its grace.
        sign = (sum(one.hello is not None for one in self.stream.processes), self.stream.stopped, alive)
        if sign != self._last:
            self._last, self._sign = sign, now
        if self.first_update is None and self.stream.updates:
            self.first_update = now
        self._listener(Event("riding", self.stream.updates, self._config.updates))
        if not alive and (not self.launched.members() or self._only_stragglers(now)):
            return True
        if not heard:
            self._look_for_others(now)
            return False
        return self._out_of_grace(now)

    def _read(self) -> None:
        # A story of minutes has megabytes: it is read again only when it went on.
        sizes = {file: file.stat().st_size for file in self.launched.folder.glob("*.jsonl")}
        if sizes != self._sizes:
            self._sizes, self.stream = sizes, self.launched.stream()

    def _only_stragglers(self, now: float) -> bool:
        """The first process ended long ago, and none of those it left trains."""
        left = set(self.launched.members())
        trains = any(one.updates and one.stopped is None and one.pid in left for one in self.stream.processes)
        return not trains and now - self._sign > self._config.grace_s

    def _out_of_grace(self, now: float) -> bool:
        # Whoever came to its own end leaves the others their time: a script may train in one process after another.
        ours = any(one.stopped is not None and one.stopped.reason in OURS for one in self.stream.processes)
        given = 0.0 if ours else self._config.seconds
        return given is not None and now - self._sign > given + self._config.grace_s

    def _look_for_others(self, now: float) -> None:
        if now - self.began > self.patience_s:
            raise could_not_attach(self.launched, waited_s=self.patience_s)
        if now - self._looked > LOOK_S:
            self._looked = now
            if (unseen := _torch_without_us(self.launched)) is not None:
                raise could_not_attach(self.launched, unseen=unseen)


def _over(following: Following, place: Scratch) -> Ride:
    launched, stream = following.launched, following.stream
    training = stream.training
    now = following._clock()
    return Ride(
        stream=stream,
        reason=training.stopped.reason if training is not None and training.stopped is not None else "killed",
        status=launched.process.poll(),
        words=launched.words(),
        wall_s=now - following.began,
        startup_s=(following.first_update or now) - following.began,
        wrote=tuple(file.says for file in place.written(stream.wrote)),
        touched=place.touched(),
    )


def could_not_attach(launched: Launched, *, waited_s: float | None = None, unseen: str | None = None) -> TargetError:
    """Never an empty diagnosis: nobody got aboard, and why."""
    launched.end()
    name = launched.name
    if unseen is not None:
        return TargetError(
            f"could not attach to `{name}`",
            because=f"`{unseen}` runs PyTorch in an interpreter that ignores PYTHONPATH",
            hint="give netdyno the inner script, or start that interpreter without -I, -E and -S",
        )
    if waited_s is not None:
        return TargetError(
            f"could not attach to `{name}`",
            because=f"none of its processes imported torch within {waited_s:g} s",
            hint="give it more time, or a smaller set of data to prepare",
        )
    return TargetError(
        f"could not attach to `{name}`",
        because="it came to its end, and no process of it that could be observed imported torch",
        hint="is this the script that trains? netdyno observes PyTorch in Python processes that read PYTHONPATH",
    )


def _torch_without_us(launched: Launched) -> str | None:
    """The command of a process that has had PyTorch in memory for a while, and told nothing."""
    for process in launched.members():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[:-1]
            isolated = set("EIS") & set(options([word.decode(errors="replace") for word in words]).letters)
            if isolated and process != launched.process.pid and "libtorch" in Path(f"/proc/{process}/maps").read_text():
                return " ".join(word.decode(errors="replace") for word in words)[:200]
    return None


def _belonging(session: int, folder: Path) -> list[int]:
    """The living of a session, and those whose environment names this ride, whatever session or parent they have now."""
    mark = os.fsencode(str(folder))
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError, IndexError):
                # The command in brackets may itself hold blanks and brackets.
                state, _, group, its_session = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:4]
                if state in "ZX":
                    continue
                if str(session) in (group, its_session) or mark in _variable(
                    Path(f"/proc/{name}/environ").read_bytes()
                ):
                    found.append(int(name))
    return found


def _variable(environment: bytes) -> bytes:
    return environment.partition(VARIABLE.encode() + b"=")[2].partition(b"\0")[0]


def _tail(path: Path) -> str:
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MOST_WORDS))
        text = file.read().decode(errors="replace")
        return text.partition("\n")[2] if size > MOST_WORDS else text
    return ""


def _ended(status: int) -> str:
    return f"ended with exit status {status}" if status > 0 else f"was killed by {signal.Signals(-status).name}"


def _sentence(words: str) -> str:
    """The last line of a traceback, which says what went wrong."""
    if "Traceback (most recent call last)" not in words:
        return ""
    lines = [
        line for line in words.splitlines() if re.match(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit)?\b", line)
    ]
    said = [line for line in lines if re.match(r"[\w.]+(:|$)", line) and not line.startswith("Traceback")]
    return f": `{said[-1].strip()[:300]}`" if said else ""


def _place(words: str) -> str:
    place = users_line(words)
    return f" ({place[0]}:{place[1]})" if place else ""


def users_line(words: str) -> tuple[str, int] | None:
    """File and line of the user's own code that stand last in a traceback."""
    places = re.findall(r'File "([^"]+)", line (\d+)', words)
    theirs = [(file, int(line)) for file, line in places if _is_users(file)]
    return theirs[-1] if theirs else None


def _is_users(file: str) -> bool:
    strangers = ("/site-packages/", "/dist-packages/", f"/lib/python{sys.version_info[0]}.", str(ABOARD))
    return not file.startswith("<") and not any(stranger in file for stranger in strangers)
