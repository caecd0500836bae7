"""The verdicts of a stored run under another policy."""

from typing import Annotated

from netdyno.cli import _options as options
from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE, NO
from netdyno.cli._options import STORE, AsJson, Goal, Run, StoreFolder, as_json
from netdyno.cli._output import put
from netdyno.records.record import Record
from netdyno.records.trial import Verdict
from netdyno.store import Store


def judge(
    *,
    run: Run = "last",
    least_gain: Annotated[
        str | None,
        Option(metavar="SHARE", help="What a change must save to be kept.", default="as in the run"),
    ] = None,
    goal: Annotated[Goal | None, Option(help="Win time, or memory.", default="as in the run")] = None,
    fail_on_change: Annotated[bool, Option(help="Exit with 1 when a verdict differs from the stored one.")] = False,
    store: StoreFolder = STORE,
    json: AsJson = False,
) -> int:
    """Judge a run's stored samples again.

    Under the same or another policy; nothing is measured, and nothing is saved.
    """
    record = Store(store).load(run)
    least = options.share(least_gain) if least_gain is not None else record.plan.least_gain
    verdicts = again(record, least_gain=least, goal=goal.value if goal else record.plan.goal)
    put(as_json(verdicts) if json else "\n".join(sentences(record, verdicts)) or "no change was tried in this run")
    changed = [new for old, new in zip(record.verdicts, verdicts, strict=False) if old.decision != new.decision]
    return NO if fail_on_change and changed else DONE


def again(record: Record, *, least_gain: float, goal: str) -> tuple[Verdict, ...]:
    """A verdict for every trial of the record. What was checked while measuring is taken from the stored ones."""
    from netdyno.stats.sequential import campaign_error

    stored = {verdict.trial: verdict for verdict in record.verdicts}
    # The campaign's error was shared between all changes there were; files tell how many without PyTorch.
    several = max(len(options.files_of("interventions")), len(record.trials) + 1)
    error = campaign_error(record.plan.error, trials=several)
    return tuple(
        _one(record, number, stored.get(number), least_gain=least_gain, error=error, goal=goal)
        for number in range(len(record.trials))
    )


def _one(record: Record, number: int, stored: Verdict | None, *, least_gain: float, error: float, goal: str) -> Verdict:
    from netdyno.verdicts.judge import judge as judged

    ticks = stored.ticks if stored is not None else None
    return judged(
        record.trials[number],
        number=number,
        least_gain=least_gain,
        error=error,
        bottleneck=ticks.quantified if ticks is not None else None,
        undone=(ticks.undoable is not None) if ticks is not None else None,
        goal=goal,
    )


def sentences(record: Record, verdicts: tuple[Verdict, ...]) -> list[str]:
    """One line per verdict, and what it was before where that differs."""
    stored = {verdict.trial: verdict.decision for verdict in record.verdicts}
    lines = []
    for verdict in verdicts:
        before = stored.get(verdict.trial)
        changed = f" (was {before})" if before not in {None, verdict.decision} else ""
        label = record.trials[verdict.trial].change.label
        lines.append(f"{verdict.decision:<9} {label}{changed}: {'; '.join(verdict.reasons)}")
    return lines
