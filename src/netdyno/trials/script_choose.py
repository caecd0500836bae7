"""What could be tried on a running script: every change that can be made from outside, with what it should save."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from netdyno import aboard
from netdyno.errors import ArmError
from netdyno.interventions._base import Facts, Intervention, catalogue, environment_of, facts_from, written
from netdyno.interventions.loader_workers import usable_cores
from netdyno.plugins import plugin_id
from netdyno.records.evidence import (
    AnyEvidence,
    LayerTable,
    Loader,
    LoaderProfile,
    LoaderUse,
    ScriptTrace,
    StepTimeline,
    ThreadUse,
)
from netdyno.records.measured import Split
from netdyno.records.record import Proposal
from netdyno.records.trial import Change, Prediction
from netdyno.trials.choose import MOST_SETTINGS, NO_SETTING, example_of, proposal, unwanted, weighed
from netdyno.trials.script_lab import ScriptLab

# One question may not eat a budget: half as much again as the walk grants a trial before it looks at the clock.
MOST_OF_A_BUDGET = 0.4

# Most evidence of a declared workload comes from probes that take it apart, and a script is not taken apart. Where what
# a prediction needs is missing, a change can save at most the phases it reaches.
REACH: dict[str, tuple[type, tuple[str, ...]]] = {
    "cache-samples": (LoaderProfile, ("data",)),
    "tensor-slicing": (LoaderProfile, ("data",)),
    "loader-workers": (LoaderProfile, ("data",)),
    "persistent-workers": (LoaderProfile, ("data",)),
    "prefetch-factor": (LoaderProfile, ("data",)),
    "bf16-autocast": (LayerTable, ("forward", "loss", "backward", "recompute")),
    "matmul-precision": (LayerTable, ("forward", "loss", "backward", "recompute")),
    "channels-last": (LayerTable, ("forward", "backward", "recompute")),
    "compile-model": (LayerTable, ("forward", "loss", "backward", "recompute")),
    "inference-mode": (type(None), ("evaluation",)),  # nothing that is collected tells more of it
}


def proposals(
    lab: ScriptLab, facts: Facts, *, recipe: tuple[Change, ...], trust: Mapping[str, float]
) -> tuple[Proposal, ...]:
    """What each change that can be made from outside should save in this script here and now, or why it is not proposed.

    The others are left out, but where `--only` names them: what changes the training itself, or the model, is not for a
    script that nobody has read.
    """
    taken = {change.id for change in recipe}
    asked = {*from_outside(), *lab.plan.only} & set(catalogue())
    return tuple(
        found if found.refused else _priced(lab, found, recipe)
        for name in sorted(asked - taken)
        for found in _of_kind(lab, name, facts, recipe, trust.get(name, 1.0))
    )


def _priced(lab: ScriptLab, found: Proposal, recipe: tuple[Change, ...]) -> Proposal:
    """With the seconds that a trial takes; left out when that is more than the budget has for any one of them."""
    seconds = lab.expected_s((*recipe, found.change))
    most = MOST_OF_A_BUDGET * lab.plan.budget_s
    if seconds <= most or found.change.id in lab.plan.only:
        return replace(found, seconds=seconds)
    why = f"a trial of it takes about {seconds:.0f} s, and the budget leaves {most:.0f} s for one (`--budget`)"
    return replace(found, seconds=seconds, refused=why)


def facts_of(evidence: Iterable[AnyEvidence]) -> Facts:
    """What predictions start from: the evidence, and what of a loader and of threads follows from it.

    The additions are readings, not evidence: they are not stored, and no rule sees them.
    """
    facts = dict(facts_from(evidence))
    timeline: StepTimeline | None = facts.get(StepTimeline)
    loaders: LoaderUse | None = facts.get(LoaderUse)
    trace: ScriptTrace | None = facts.get(ScriptTrace)
    trained = [loader for loader in loaders.loaders if loader.trains] if loaders is not None else []
    if timeline is None:
        return facts
    if trained and LoaderProfile not in facts:
        facts[LoaderProfile] = _profile_of(max(trained, key=lambda loader: loader.batches), timeline)
    if trace is not None and trace.threads and ThreadUse not in facts:
        facts[ThreadUse] = _threads_of(
            trace.threads, timeline, workers=max((each.workers for each in trained), default=0)
        )
    return facts


def _profile_of(loader: Loader, timeline: StepTimeline) -> LoaderProfile:
    # Without workers all of the data phase is the making of a batch; behind workers a sample's price is not seen.
    per_batch = timeline.phases.get("data", Split()) if loader.workers == 0 else Split()
    return LoaderProfile(
        sample=per_batch.per(loader.batch_size or 1),
        augment=Split(),
        collate=Split(),
        batch_bytes=0,
        samples=(loader.batches_per_pass or 0) * (loader.batch_size or 1),
        dataset_bytes=None,
        deterministic=False,
        stackable=False,
        workers=loader.workers,
        first_batch_s=loader.start_s,
        epoch_start_s=loader.start_s,
        iterable=loader.iterable,
        batch_size=loader.batch_size or 1,
    )


def _threads_of(threads: int, timeline: StepTimeline, *, workers: int) -> ThreadUse:
    waiting = timeline.step.waiting / timeline.step.wall if timeline.step.wall else 0.0
    return ThreadUse(
        torch_threads=threads,
        interop_threads=1,
        cores=usable_cores(),
        workers=workers,
        worker_threads=1,
        waiting_share=waiting,
        others_share=0.0,
    )


def from_outside() -> tuple[str, ...]:
    """The ids of all changes that can be made to a script that is not edited."""
    knobs = importlib.import_module(f"{aboard.__name__}.knobs")
    aboard_ids = [
        plugin_id(info.name) for info in pkgutil.iter_modules(knobs.__path__) if not info.name.startswith("_")
    ]
    by_environment = [name for name in catalogue() if environment_of((written(example_of(name)),))]
    return tuple(sorted({*aboard_ids, *by_environment} & set(catalogue())))


def _of_kind(lab: ScriptLab, name: str, facts: Facts, recipe: tuple[Change, ...], trust: float) -> Iterator[Proposal]:
    example = example_of(name)
    refused = _refused(lab, name)
    if refused:
        yield proposal(example, trust, refused=refused)
        return
    settings = settings_of(example, facts)[:MOST_SETTINGS]
    if not settings:
        yield proposal(example, trust, refused=NO_SETTING)
    for setting in settings:
        prediction = setting.predicts(facts) or _at_most(name, facts)
        early = weighed(lab.plan, setting, prediction, trust=trust, refused=None)
        # Only what is worth a trial is worth a question to the script.
        yield (
            early
            if early.refused
            else weighed(lab.plan, setting, prediction, trust=trust, refused=_asked(lab, written(setting), recipe))
        )


def _refused(lab: ScriptLab, name: str) -> str | None:
    if name not in from_outside():
        return "it cannot be made to a script from outside: declare a workload to have it tried"
    return unwanted(lab.plan, name, allowed=lab.allowed.numerics)


def _asked(lab: ScriptLab, change: Change, recipe: tuple[Change, ...]) -> str | None:
    try:
        return lab.refusal(change, recipe=recipe)
    except ArmError as problem:
        return f"the script could not be asked: {problem.says}"


def settings_of(example: Intervention, facts: Facts) -> tuple[Intervention, ...]:
    """The settings worth a race on a script. An intervention with more than its default says so in `for_scripts`."""
    chosen = getattr(example, "for_scripts", None)
    return tuple(chosen(facts)) if chosen is not None else (example,)


def _at_most(name: str, facts: Facts) -> Prediction | None:
    """The whole of what a change reaches: an upper bound, from the timeline alone."""
    timeline: StepTimeline | None = facts.get(StepTimeline)
    needed, phases = REACH.get(name, (StepTimeline, ()))
    if timeline is None or needed in facts:
        return None
    share = timeline.share(*phases)
    return Prediction(
        low=0.0, high=share, why=f"{' and '.join(phases)} take {share:.0%} of a step, and it can save no more than that"
    )
