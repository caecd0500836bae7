"""What holds a script or a workload back, from fresh evidence or from a stored run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec.structs import replace

from netdyno import plugins
from netdyno.cli import _options as options
from netdyno.cli._declare import Argument, Option
from netdyno.cli._endings import DONE, NO, naming_the_record
from netdyno.cli._options import STORE, AsJson, Budget, Progress, ProgressForm, Seed, StoreFolder
from netdyno.cli._output import colour, put, tell, width
from netdyno.cli._progress import listening, loading
from netdyno.cli._scripts import InPlace, Module, Online, Updates, Words, script_named, way
from netdyno.errors import NetdynoError
from netdyno.records.diagnosis import Outcome
from netdyno.records.record import Plan, Record
from netdyno.store import Store

if TYPE_CHECKING:
    from netdyno.targets.script import Script, Way


def doctor(
    *,
    subject: Annotated[
        str | None,
        Argument(
            "A script `train.py` or a workload `work.py:Digits` to examine now, or a stored run.",
            metavar="SCRIPT|WORKLOAD|RUN",
        ),
    ] = None,
    words: Words = (),
    module: Module = None,
    updates: Updates = None,
    in_place: InPlace = False,
    online: Online = False,
    fail_on: Annotated[
        list[str] | None,
        Option(metavar="RULE", help="Exit with 1 when this rule finds something; `any` for every rule; repeat."),
    ] = None,
    deep: Annotated[
        bool, Option(help="Run short experiments that tell causes from look-alikes: the script runs some times more.")
    ] = False,
    prove: Annotated[
        bool, Option(help="Try the fix of the root cause on five seeds, with and without, and show the interval.")
    ] = False,
    everything: Annotated[bool, Option(help="Show every finding in full, not only the root cause.")] = False,
    sarif: Annotated[Path | None, Option(metavar="FILE", help="Also write the findings as SARIF 2.1.0.")] = None,
    budget: Budget = "5m",
    seed: Seed = 0,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Say what is wrong with a script or a workload, or holds it back: the root cause first.

    A script runs unmodified in a scratch copy of its folder: `netdyno doctor train.py -- --epochs 3`. A stored run is
    examined again by today's rules, without a device.
    """
    shelf = Store(store)
    bad = _gates(fail_on)
    script = script_named(subject, words, module)
    plan = Plan(budget_s=options.duration(budget), seed=seed)
    if script is not None:
        chosen = way(in_place=in_place, online=online, updates=updates)
        record = _watched(script, Look(chosen, deep=deep, prove=prove), plan, shelf, progress)
    elif subject is None:
        raise _nothing()
    elif is_workload(subject):
        record = _examined(subject, plan, shelf, progress)
    else:
        record = again(shelf.load(subject))
    if sarif is not None:
        _write_sarif(record, sarif)
    if json:
        from netdyno.reports import json as as_data

        put(as_data.diagnosis(record))
    else:
        from netdyno.reports import text

        if script is not None:
            put(text.render_watched(record, width=width(), colour=colour()))
            put("")
        put(
            text.render_findings(
                record.outcomes, experiments=record.experiments, everything=everything, width=width(), colour=colour()
            )
        )
    return NO if sick(record.outcomes, bad) else DONE


def is_workload(subject: str) -> bool:
    """True for what names a workload, and not a run.

    >>> is_workload("work.py:Digits"), is_workload("last"), is_workload("runs/a.json")
    (True, False, False)
    """
    return ":" in subject or subject.endswith(".py")


def again(record: Record) -> Record:
    """A stored run with the outcomes of today's rules over its evidence."""
    from netdyno.rules._base import diagnose

    outcomes = diagnose(
        record.evidence, environment=record.environment, ceilings=record.ceilings, baseline=record.baseline
    )
    return replace(record, outcomes=outcomes)


def sick(outcomes: tuple[Outcome, ...], bad: tuple[str, ...]) -> bool:
    """True when a rule that the gate names has found something."""
    found = {outcome.rule: outcome.finding for outcome in outcomes if outcome.state == "found"}
    wrong = [rule for rule, finding in found.items() if finding is not None and finding.stage != "note"]
    return bool(wrong if "any" in bad else found.keys() & set(bad))


def _examined(reference: str, plan: Plan, shelf: Store, progress: ProgressForm) -> Record:
    with naming_the_record(shelf), listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench

        record = bench.diagnose(reference, plan, store=shelf, listener=listener, command=options.command_line())
    tell(f"record:  {shelf.path(record.id)}")
    return record


class Look(NamedTuple):
    """How a script is run, and how far the examination goes beyond watching."""

    way: "Way"
    deep: bool = False
    prove: bool = False


def _watched(script: "Script", look: Look, plan: Plan, shelf: Store, progress: ProgressForm) -> Record:
    with naming_the_record(shelf), listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench_script

        command = options.command_line()
        record = bench_script.diagnose(
            script,
            plan,
            way=look.way,
            store=shelf,
            listener=listener,
            command=command,
            deep=look.deep,
            proof=look.prove,
        )
    for failure in record.failures:
        tell(failure.says)
    tell(f"record:  {shelf.path(record.id)}")
    return record


def _write_sarif(record: Record, path: Path) -> None:
    from netdyno.reports import _sarif as sarif

    told = [outcome.finding for outcome in record.outcomes if outcome.finding is not None]
    about = {
        name: (module.__doc__ or "").partition("\n")[0]
        for room in ("rules", "lint")
        for name, module in plugins.modules(room)
        if not isinstance(module, plugins.Broken)
    }
    path.write_text(
        sarif.render(
            told, {finding.id: about.get(finding.id, finding.fix) for finding in told}, root=record.target.folder
        )
    )
    tell(f"sarif:   {path}")


def _nothing() -> NetdynoError:
    return NetdynoError(
        "there is nothing to examine",
        because="neither a script, nor a workload, nor a stored run was given",
        hint="`netdyno doctor train.py -- --epochs 3` watches a script; `netdyno doctor last` reads the last run",
    )


def _gates(fail_on: list[str] | None) -> tuple[str, ...]:
    asked = options.names(fail_on)
    options.known(tuple(name for name in asked if name != "any"), options.files_of("rules"), kind="rule")
    return asked
