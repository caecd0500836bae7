"""Two runs beside each other."""

from typing import Annotated

from netdyno.cli._declare import Argument
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, StoreFolder, as_json
from netdyno.cli._output import colour, put, width
from netdyno.store import Store
from netdyno.verdicts.compare import compare as compared


def compare(
    *,
    before: Annotated[str, Argument("The earlier run: its id or a part of it, or a path.")],
    after: Annotated[str, Argument("The later run.")] = "last",
    store: StoreFolder = STORE,
    json: AsJson = False,
) -> int:
    """Compare the baselines of two runs.

    Refuses runs that were measured on another machine, or with other versions, threads or seed, and names what
    differs. The runs were not taken in turns, so the changes carry no verdict; `netdyno tune` gives one.
    """
    shelf = Store(store)
    one, other = shelf.load(before), shelf.load(after)
    rows = compared(one, other)
    if json:
        put(as_json({"before": one.id, "after": other.id, "rows": [row._asdict() for row in rows]}))
    else:
        from netdyno.reports import text

        put(text.render_comparison((one.id, other.id), rows, width=width(), colour=colour()))
    return DONE
