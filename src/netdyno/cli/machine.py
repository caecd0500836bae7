"""This machine: what it is, and what it can do at best."""

from typing import Annotated, NamedTuple

from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE
from netdyno.cli._options import STORE, AsJson, Progress, ProgressForm, StoreFolder, as_json
from netdyno.cli._output import colour, put, width
from netdyno.cli._progress import listening, loading
from netdyno.progress import Event
from netdyno.records.environment import Ceilings, Environment
from netdyno.store import Store


class Machine(NamedTuple):
    """What `netdyno machine` answers."""

    environment: Environment
    ceilings: Ceilings


def machine(
    *,
    device: Annotated[str, Option(help="`cpu`, or a device such as `cuda:0`.")] = "cpu",
    fresh: Annotated[bool, Option(help="Measure the ceilings again.")] = False,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Describe this machine and its ceilings.

    Ceilings are the best matrix rate of each precision and the best memory rate, measured once and then kept.
    """
    shelf = Store(store)
    with listening(progress) as listener:
        loading(listener)
        from netdyno.measure.ceilings import ceilings
        from netdyno.measure.environment import describe

        environment = describe(device)
        known = None if fresh else shelf.load_ceilings(environment.id)
        if known is None:
            listener(Event("measuring the ceilings"))
            known = ceilings(environment)
            shelf.save_ceilings(known)
    if json:
        put(as_json(Machine(environment, known)))
    else:
        from netdyno.reports import text

        put(text.render_machine(environment, known, width=width(), colour=colour()))
    return DONE
