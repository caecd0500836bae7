"""Two runs beside each other."""

from typing import Annotated

from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, StoreFolder, as_json, known
from netdyno.cli._output import colour, put, width
from netdyno.store import Store
from netdyno.verdicts.compare import GROUPS, ORDER
from netdyno.verdicts.compare import compare as compared


def compare(
    *,
    before: Annotated[str, Argument("The earlier run: its id or a part of it, or a path.")],
    after: Annotated[str, Argument("The later run.")] = "last",
    allow: Annotated[
        list[str] | None,
        Option(metavar="KEY", help="Compare though these differ: threads, torch, packages; repeat or use commas."),
    ] = None,
    store: StoreFolder = STORE,
    json: AsJson = False,
) -> int:
    """Compare the baselines of two runs.

    Refuses runs that were measured on another machine, or with other versions, threads or seed, and names what
    differs. The runs were not taken in turns, so the changes carry no verdict; `netdyno tune` gives one.
    """
    shelf = Store(store)
    one, other = shelf.load(before), shelf.load(after)
    rows = compared(one, other, allow=_keys(allow))
    if json:
        put(as_json({"before": one.id, "after": other.id, "rows": [row._asdict() for row in rows]}))
    else:
        from netdyno.reports import text

        put(text.render_comparison((one.id, other.id), rows, width=width(), colour=colour()))
    return DONE


def _keys(given: list[str] | None) -> tuple[str, ...]:
    """Keys that may differ. Raises NetdynoError for a word that is none."""
    asked = tuple(word.strip() for text in given or () for word in text.split(","))
    known(tuple(key.partition(".")[0] for key in asked), (*ORDER, *GROUPS), kind="key of an environment")
    return asked
