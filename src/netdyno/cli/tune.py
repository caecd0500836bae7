"""The main job: measure a script or a workload, find what holds it back, try changes, keep what is proven."""

from typing import TYPE_CHECKING, Annotated, Any

from netdyno.cli import _options as options
from netdyno.cli._declare import Option
from netdyno.cli._endings import DONE, NO, naming_the_record
from netdyno.cli._options import (
    STORE,
    AnyNumerics,
    AsJson,
    Budget,
    Goal,
    Progress,
    ProgressForm,
    Seed,
    StoreFolder,
)
from netdyno.cli._output import answer, tell, write_leavings
from netdyno.cli._progress import listening, loading
from netdyno.cli._scripts import InPlace, Module, Online, Target, Words, script_named, way
from netdyno.errors import NetdynoError
from netdyno.records.record import Plan, Record
from netdyno.store import Store

if TYPE_CHECKING:
    from netdyno.targets.script import Script, Way

DEFAULT = Plan()
# Who says how much memory there is needs it to fit first, and to be fast second.
PRICE_UNDER_A_BUDGET = 0.50


def tune(
    *,
    reference: Target = None,
    words: Words = (),
    module: Module = None,
    in_place: InPlace = False,
    online: Online = False,
    budget: Budget = "10m",
    least_gain: Annotated[
        str, Option(metavar="SHARE", help="What a change must save to be kept: 5% of a step.")
    ] = "5%",
    goal: Annotated[Goal, Option(help="Win time, or win memory for a little time.")] = Goal.TIME,
    time_price: Annotated[
        str | None,
        Option(
            metavar="SHARE",
            help="What of a step may be lost for less memory, under `--goal memory`.",
            default="5%, or 50% with --memory-budget",
        ),
    ] = None,
    memory_budget: Annotated[str | None, Option(metavar="SIZE", help="What the tuned program may use: 2GiB.")] = None,
    only: Annotated[
        list[str] | None, Option(metavar="CHANGE", help="Try these changes and no others; repeat or use commas.")
    ] = None,
    skip: Annotated[
        list[str] | None, Option(metavar="CHANGE", help="Leave these changes out; repeat or use commas.")
    ] = None,
    allow: Annotated[
        list[AnyNumerics] | None,
        Option(
            metavar="CLASS",
            help=f"Numerics classes that may be tried, of {', '.join(AnyNumerics)}; repeat.",
            default="all but other-training",
        ),
    ] = None,
    trial_seconds: Annotated[str, Option(metavar="TIME", help="Wall time of one trial at most.")] = "60s",
    spawns: Annotated[
        int, Option(least=2, help="How often both sides of a process trial are started.")
    ] = DEFAULT.spawns,
    seed: Seed = 0,
    resume: Annotated[str | None, Option(metavar="RUN", help="Go on with a run that was cut short.")] = None,
    fail_on_no_gain: Annotated[bool, Option(help="Exit with 1 when nothing was kept.")] = False,
    store: StoreFolder = STORE,
    json: AsJson = False,
    progress: Progress = ProgressForm.AUTO,
) -> int:
    """Make a script or a workload faster, with proof.

    Measures it, finds what holds it back, tries reversible changes in fair paired trials, keeps what is proven,
    and attributes the gain piece by piece.
    """
    shelf = Store(store)
    earlier = shelf.load(resume) if resume else None
    plan = earlier.plan if earlier else Plan(
        budget_s=options.duration(budget),
        least_gain=options.share(least_gain),
        goal=goal.value,
        memory_budget=options.size(memory_budget) if memory_budget else None,
        time_price=_price(time_price, under_a_budget=memory_budget is not None),
        only=_changes(only),
        skip=_changes(skip),
        allow=_classes(allow),
        trial_s=options.duration(trial_seconds),
        spawns=spawns,
        seed=seed,
    )  # fmt: skip
    script = script_named(reference, words, module) if earlier is None else _script_of(earlier)
    if script is not None:
        record = _tuned_script(
            script, way(in_place=in_place, online=online), plan, shelf, earlier=earlier, progress=progress
        )
    else:
        record = _tuned(_target(reference, earlier), plan, shelf, earlier, progress)
    answer(record, json=json)
    for line in write_leavings(record, shelf):
        tell(line)
    return NO if fail_on_no_gain and not record.recipe else DONE


def _tuned(reference: str, plan: Plan, shelf: Store, earlier: Record | None, progress: ProgressForm) -> Record:
    with naming_the_record(shelf), listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench

        return bench.tune(
            reference, plan, store=shelf, listener=listener, resume=earlier, command=options.command_line()
        )


def _tuned_script(
    script: "Script", way: "Way", plan: Plan, shelf: Store, *, earlier: Record | None, progress: ProgressForm
) -> Record:
    with naming_the_record(shelf), listening(progress, budget_s=plan.budget_s) as listener:
        loading(listener)
        from netdyno import bench_script

        command = options.command_line()
        return bench_script.tune(script, plan, way=way, store=shelf, listener=listener, resume=earlier, command=command)


def _script_of(earlier: Record) -> "Script | None":
    """The script of a run that was cut short; None when it was of a workload."""
    if not earlier.target.command:
        return None
    from netdyno.targets.script import again

    return again(earlier.target.command, earlier.target.folder)


def _target(reference: str | None, earlier: Record | None) -> str:
    if reference is None and earlier is None:
        raise NetdynoError(
            "there is nothing to tune",
            because="neither a script, nor a workload, nor `--resume RUN` was given",
            hint="`netdyno tune train.py -- --epochs 3` takes a script; `netdyno tune garage:digits` a built-in workload",
        )
    if earlier is None:
        assert reference is not None
        return reference
    if reference is not None and reference != earlier.target.source:
        raise NetdynoError(
            f"cannot resume `{earlier.id}` on `{reference}`",
            because=f"it was run on `{earlier.target.source}`",
            hint=f"`netdyno tune --resume {earlier.id}` is enough",
        )
    return earlier.target.source


def _price(given: str | None, *, under_a_budget: bool) -> float:
    if given is not None:
        return options.share(given)
    return PRICE_UNDER_A_BUDGET if under_a_budget else DEFAULT.time_price


def _changes(given: list[str] | None) -> tuple[str, ...]:
    return options.known(options.names(given), options.files_of("interventions"), kind="change")


def _classes(given: list[AnyNumerics] | None) -> Any:
    return tuple(each.value for each in given) if given else DEFAULT.allow
