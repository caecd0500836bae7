"""An unmodified script, watched while it trains."""

import os
import signal
import subprocess
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._options import STORE, StoreFolder
from netdyno.cli._output import tell
from netdyno.cli._scripts import Module, Words
from netdyno.errors import NetdynoError
from netdyno.records.journal import STAGES

if TYPE_CHECKING:
    from netdyno.monitor.script import Wishes
    from netdyno.targets.script import Script

MOST = 0.5  # above it a watch is no watch any more; `netdyno.watch` refuses it too


class OnTrip(StrEnum):
    """What happens when a tripwire breaks."""

    WARN = "warn"
    PAUSE = "pause"
    STOP = "stop"


def watch(
    *,
    target: Annotated[
        str | None,
        Argument("A script `train.py`; its arguments, or a whole command, after `--`.", metavar="TARGET"),
    ] = None,
    words: Words = (),
    module: Module = None,
    run: Annotated[str | None, Option(metavar="NAME", help="Name of the run.", default="the script's name")] = None,
    stage: Annotated[
        str | None, Option(metavar="|".join(STAGES), help="Which kind of variable this run is about.")
    ] = None,
    tag: Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="Something to filter runs by; repeat.")] = None,
    require_tag: Annotated[bool, Option(help="Refuse a run without a stage or a tag.")] = False,
    budget: Annotated[str, Option(metavar="SHARE", help="Share of the time that watching may take.")] = "1%",
    everything: Annotated[bool, Option(help="Look at all there is, for some per cent of the time.")] = False,
    on_trip: Annotated[OnTrip, Option(help="What happens when a tripwire breaks.")] = OnTrip.WARN,
    store: StoreFolder = STORE,
) -> int:
    """Run a script as it is and watch it train: `netdyno watch train.py -- --epochs 3`.

    It keeps its own folder, output and exit status. What is seen goes into a journal in the store while it runs, which `netdyno ui`
    shows; alerts go to stderr. Where netdyno cannot watch, it says so, and the script runs all the same.
    """
    from netdyno.monitor.script import Wishes
    from netdyno.monitor.tagging import refuse_untagged
    from netdyno.targets.script import parse

    if require_tag:
        refuse_untagged(stage, tags(tag))
    script = parse(target, words, module=module)
    wishes = Wishes(
        run=run or Path(script.name).stem,
        store=str(store.absolute()),
        stage=_stage(stage),
        tags=tags(tag),
        budget=_budget(budget),
        everything=everything,
        on_trip=on_trip.value,
        parent=os.getpid(),
        launches=script.kind == "torchrun",
    )
    return _ran(script, wishes)


def tags(given: list[str] | None) -> dict[str, str]:
    """Tags from words.

    >>> tags(["board=a", "note=x=1"])
    {'board': 'a', 'note': 'x=1'}
    """
    for word in given or ():
        if not word.partition("=")[0] or "=" not in word:
            raise NetdynoError(
                f"cannot tag a run with `{word}`",
                because="a tag is a name and a value",
                hint=f"write `--tag {word.strip('=') or 'board'}=VALUE`",
            )
    return {name: value for name, _, value in (word.partition("=") for word in given or ())}


def _stage(word: str | None) -> str | None:
    return options.known((word,), STAGES, kind="stage")[0] if word is not None else None


def _budget(text: str) -> float:
    share = options.share(text)
    if not 0 < share <= MOST:
        raise NetdynoError(
            f"cannot watch with a budget of `{text}`",
            because="a budget is the share of the time that looking may take",
            hint="use a share between 0 and 50 %, such as `1%`",
        )
    return share


def _ran(script: "Script", wishes: "Wishes") -> int:
    """The script's own exit status. An interrupt is the script's to answer: it goes to both of us, and we wait."""
    from netdyno.monitor.script import watched

    argv, environment = watched(script.argv, wishes)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = subprocess.Popen(
            argv,
            cwd=script.cwd,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  no thread runs yet
        )
        try:
            status = process.wait()
        except KeyboardInterrupt:  # we were told to end: so is the script
            process.terminate()
            status = process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    _say_where(script, wishes, process.pid, status)
    return status if status >= 0 else 128 - status


def _say_where(script: "Script", wishes: "Wishes", process: int, status: int) -> None:
    from netdyno.monitor.script import last_word, written
    from netdyno.monitor.tagging import UNTAGGED, is_tagged

    found = written(Path(wishes.store), process)
    if found is not None:
        last_word(found, status)
        tell(f"journal: {found.folder}")
        if not is_tagged(wishes.stage, wishes.tags):
            tell(UNTAGGED)
    elif not wishes.launches:
        tell(f"netdyno: nothing was watched: `{script.name}` trained nothing with torch in its own process")
