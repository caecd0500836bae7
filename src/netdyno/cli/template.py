"""A training script from the winning recipe: it runs as it is, and needs nothing of netdyno."""

from pathlib import Path
from typing import Annotated

from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, StoreFolder
from netdyno.cli._output import put, tell
from netdyno.errors import NetdynoError
from netdyno.records.study import Study
from netdyno.records.trial import Change
from netdyno.store.documents import Documents


def template(
    *,
    target: Annotated[
        str | None,
        Argument("A workload `work.py:Digits` or `garage:digits`; without one, that of the study."),
    ] = None,
    study: Annotated[
        str | None, Option(metavar="STUDY", help="Write the recipe of this study: its id, or `last`.", default="none")
    ] = None,
    output: Annotated[
        Path | None, Option(metavar="FILE", help="Where the script goes.", default="standard output")
    ] = None,
    store: StoreFolder = STORE,
) -> int:
    """Write a training script for a workload: `netdyno template garage:digits --study last --output train.py`.

    It holds the workload's own code and the recipe that `netdyno learn` proved: seeds, loaders, half precision where the device
    has it, clipping and schedules in the right order, validation, checkpoints that a run goes on from. What it cannot write it says.
    """
    found = Documents(store).load(Study, study) if study is not None else None
    reference = target or (found.target if found is not None else None)
    if reference is None:
        raise NetdynoError(
            "there is nothing to write",
            because="neither a workload nor a study was named",
            hint="`netdyno template garage:digits`, or `netdyno template --study last`",
        )
    if output is not None and output.exists():
        raise NetdynoError(
            f"cannot write `{output}`",
            because="there is such a file already",
            hint="name another one, or remove it first",
        )
    recipe: tuple[Change, ...] | None = found.recipe if found is not None else None
    from netdyno.learning.template import write

    made = write(reference, recipe, study=found.id if found is not None else "")
    for each in made.left_out:
        tell(f"not in the script, a person has to write it: {each}")
    if output is None:
        put(made.text)
    else:
        output.write_text(made.text, encoding="utf-8")
        tell(f"script:  {output}")
    return DONE
