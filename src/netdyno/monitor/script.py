"""A watch over a script that knows nothing of it: it begins when torch has been imported, and ends with the process.

The door of `aboard/site` calls `begin` in each Python process that the script starts. Whatever fails here is said, and the
script goes on as if nobody had asked.
"""

import atexit
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from netdyno.aboard.boot import WORKERS
from netdyno.scripts.launch import SITE, reworded
from netdyno.store import journal

VARIABLE = "NETDYNO_WATCH"
NEWEST = 50  # among so many journals stands the one that was begun a run ago


class Wishes(NamedTuple):
    """What `netdyno watch` was asked for, as it stands in the environment of the script.

    `parent` is the process that starts the script; `launches` says that the script only starts others, which train.
    """

    run: str
    store: str
    stage: str | None = None
    tags: Mapping[str, str] = {}
    budget: float = 0.01
    everything: bool = False
    on_trip: str = "warn"
    parent: int = 0
    launches: bool = False


def watched(argv: Sequence[str], wishes: Wishes) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command and the variables under which a script is watched; its words stay what they are."""
    command, environment = reworded(argv, os.environ)
    path = environment.get("PYTHONPATH")
    door = f"{SITE}{os.pathsep}{path}" if path else str(SITE)
    return command, {**environment, "PYTHONPATH": door, VARIABLE: json.dumps(wishes._asdict())}


def begin() -> None:
    """Watch this process, now if it trains, or else as soon as it does."""
    try:
        wishes = Wishes(**json.loads(os.environ[VARIABLE]))
        if trains(wishes):
            _watch(wishes)
        else:
            _wait_for_a_step(wishes)
    except Exception as error:
        _cannot(error)


def trains(wishes: Wishes, *, words: tuple[str, ...] | None = None) -> bool:
    """Whether this process is the script itself or a rank of it; others (a loader's worker, a launcher) may never train."""
    command = " ".join(sys.orig_argv if words is None else words)
    if any(mark in command for mark in WORKERS):
        return False
    return "RANK" in os.environ or (os.getppid() == wishes.parent and not wishes.launches)


def _wait_for_a_step(wishes: Wishes) -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    def begin_now(*_: Any) -> None:
        handle.remove()
        try:
            _watch(wishes)
        except Exception as error:
            _cannot(error)

    handle = register_optimizer_step_pre_hook(begin_now)


def _watch(wishes: Wishes) -> None:
    from netdyno.monitor import run

    asked: dict[str, Any] = wishes._asdict()
    del asked["parent"], asked["launches"]
    watch = run.watch(**asked, settings={"command": shlex.join(sys.orig_argv[1:])})
    watch.start()
    atexit.register(_end, watch, os.getpid())


def _end(watch: Any, process: int) -> None:
    if process != os.getpid():  # a fork that ends as a process of its own
        return
    try:
        error = getattr(sys, "last_value", None)
        watch.__exit__(None if error is None else type(error), error, None)
    except Exception as failure:
        _cannot(failure)


def _cannot(error: Exception) -> None:
    with contextlib.suppress(Exception):
        sys.stderr.write(
            f"netdyno: this run is not watched, and goes on all the same ({type(error).__name__}: {error})\n"
        )


def written(store: Path, process: int) -> journal.Run | None:
    """The journal that a process has just written."""
    for run in islice(journal.runs(store), NEWEST):
        with contextlib.suppress(Exception):
            if run.info.process == process:
                return run
    return None


def last_word(run: journal.Run, status: int) -> None:
    """How the process ended, where it could not say so itself: it was killed, or its status tells of a failure."""
    end = run.end
    if end is None:
        _add(run, "failed", _in_words(status), 0)
    elif status != 0 and end["reason"] == "ended":
        _add(run, "stopped", _in_words(status), end["update"], end["seconds"])


def _in_words(status: int) -> str:
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"its exit status was {status}"


def _add(run: journal.Run, reason: str, says: str, update: int, seconds: float = 0.0) -> None:
    events, _ = run.events()
    if events and not update:
        update, seconds = events[-1]["update"], events[-1]["seconds"]
    line = {"kind": "end", "update": update, "seconds": seconds, "reason": reason, "says": says, "updates": update}
    with contextlib.suppress(OSError), open(run.folder / "events.jsonl", "ab") as file:
        # A kill may have cut the last line in two.
        file.write(b"\n" + json.dumps(line).encode() + b"\n")
