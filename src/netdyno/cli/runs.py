"""All runs of a store."""

from typing import NamedTuple

from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, StoreFolder, as_json
from netdyno.cli._output import colour, put, tell, width
from netdyno.store import Store, Summary


class Row(NamedTuple):
    """One run of the list."""

    id: str
    made_at: str
    target: str
    says: str


def runs(*, store: StoreFolder = STORE, json: AsJson = False) -> int:
    """List the runs, newest first."""
    shelf = Store(store)
    found = shelf.runs()
    if json:
        put(as_json(found))
    elif found:
        from netdyno.reports import text

        put(text.render_runs([row(summary, shelf) for summary in found], width=width(), colour=colour()))
    else:
        tell(f"`{shelf.folder}` holds no runs yet; `netdyno tune garage:digits` makes one")
    return DONE


def row(summary: Summary, shelf: Store) -> Row:
    """A run and what came of it, or why its file cannot be read."""
    from netdyno.reports import text

    broken = summary.broken
    says = f"cannot be read: {broken}" if broken is not None else text.summary(shelf.load(summary.path))
    return Row(id=summary.id, made_at=summary.made_at, target=summary.target, says=says)
