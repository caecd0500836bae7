"""A run as text."""

from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, Run, StoreFolder
from netdyno.cli._output import answer
from netdyno.store import Store


def show(*, run: Run = "last", store: StoreFolder = STORE, json: AsJson = False) -> int:
    """Show a run.

    What was measured, found, tried and kept, and what each change won.
    """
    answer(Store(store).load(run), json=json)
    return DONE
