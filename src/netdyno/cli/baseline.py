"""The four baselines of a workload: its performance DNA."""

from netdyno.cli import _options as options
from netdyno.cli._endings import DONE, naming_the_record
from netdyno.cli._options import STORE, AsJson, Budget, Progress, ProgressForm, Reference, Seed, StoreFolder
from netdyno.cli._output import colour, put, tell, width
from netdyno.cli._progress import listening, loading
from netdyno.records import codec
from netdyno.records.record import Plan
from netdyno.store import Store


def baseline(
    *,
    reference: Reference,
    budget: Budget = "5m",
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Measure a workload's four baselines.

    Data alone, forward alone, backward and update, and the whole step: its performance DNA, kept as a record.
    """
    shelf = Store(store)
    plan = Plan(budget_s=options.duration(budget), seed=seed)
    with naming_the_record(shelf), listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench

        record = bench.baseline(reference, plan, store=shelf, listener=listener, command=options.command_line())
    if json:
        put(codec.encode(record, indent=2).decode())
    else:
        from netdyno.reports import text

        put(text.render_baseline(record, width=width(), colour=colour()))
    tell(f"record:  {shelf.path(record.id)}")
    return DONE
