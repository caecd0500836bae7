"""A watched run, handed on to other programs."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE
from netdyno.cli._journals import Watched, journal_of
from netdyno.cli._options import STORE, StoreFolder
from netdyno.cli._output import put, tell
from netdyno.errors import NetdynoError

if TYPE_CHECKING:
    from netdyno.monitor.exporters._base import Exporter
    from netdyno.monitor.exporters._following import Following

# How often a run that goes on is read again.
LOOK_S = 1.0


def export(
    *,
    run: Watched = "last",
    to: Annotated[
        str | None,
        Option(metavar="NAME", help="tensorboard, mlflow, wandb, prometheus, csv or json."),
    ] = None,
    out: Annotated[
        str | None,
        Option(
            metavar="PATH",
            help="A file or a folder; an address for prometheus (127.0.0.1:9464) and mlflow.",
            default="in the store, under `exports`",
        ),
    ] = None,
    follow: Annotated[bool, Option(help="Go on until the run ends.")] = False,
    store: StoreFolder = STORE,
) -> int:
    """Hand a watched run on to TensorBoard, MLflow, Weights & Biases, Prometheus, CSV or JSON.

    All points, also of a run that goes on. Nothing leaves this machine: MLflow writes an SQLite file, Weights & Biases works
    offline unless WANDB_MODE says otherwise, and Prometheus finds the last values at an address of this machine until
    you interrupt. Where it went is on stdout.
    """
    from netdyno.monitor.exporters import _base as room
    from netdyno.monitor.exporters._following import Following

    if to is None:
        raise NetdynoError(
            "cannot export to nowhere",
            because="no `--to` was given",
            hint=f"`netdyno export {run} --to csv`; there are {', '.join(sorted(room.exporters()))}",
        )
    found = journal_of(run, store)
    made = room.exporter(to, store=store, run=found.info.id, out=out)
    following = Following(found, [made])
    with _explained(to, made):
        following.begin()
        following.all()
        put(made.where)
        sys.stdout.flush()  # who waits for the address must not wait for the end
        _wait(following, follow=follow, serving=made.serves and made.where.startswith("http"))
        following.close()
    return DONE


def _wait(following: "Following", *, follow: bool, serving: bool) -> None:
    """Until the run is over, or, where something is served, until somebody interrupts."""
    stop = threading.Event()
    try:
        if serving:
            tell("serving; interrupt to end")
        while (serving or (follow and following.run.state() == "running")) and not stop.wait(LOOK_S):
            following.all()
    except KeyboardInterrupt:
        tell("interrupted: what was there so far is handed on")


@contextlib.contextmanager
def _explained(name: str, made: "Exporter") -> Iterator[None]:
    """What the disk or the other library refuses, in three lines."""
    try:
        yield
    except Exception as error:
        library = type(error).__module__.partition(".")[0]
        if isinstance(error, NetdynoError) or not (isinstance(error, OSError) or library in made.needs):
            raise
        raise NetdynoError(
            f"cannot export to `{name}` at `{made.out}`",
            because=" ".join(f"{type(error).__name__}: {error}".split())[:300],
            hint="choose another place with `--out`; the journal is as it was",
        ) from error
