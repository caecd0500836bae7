"""The walk of one search for a better model, as a list of steps: read this first.

Each step takes the study of what is known, adds its own part, and every training run is on disk before the next begins.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import fmean, median
from typing import Any

import msgspec
import torch
from msgspec.structs import replace
from torch import nn

from netdyno import __version__
from netdyno.errors import NetdynoError
from netdyno.knobs._base import broken, catalogue
from netdyno.learning import joint, rate_sweep
from netdyno.learning import together as together_
from netdyno.learning.answers import latency_s, priced
from netdyno.learning.run import setup_of, train
from netdyno.learning.sweep import FRESH, runs_of, settings_of, sweep, with_change
from netdyno.learning.trainings import Trainer, Trainings
from netdyno.progress import Event, Listener, silent
from netdyno.records.study import Candidate, Run, Rung, Stage, Study, StudyPlan, Sweep, Tier
from netdyno.records.trial import Change
from netdyno.store.documents import Documents
from netdyno.targets.workload import load, source_of
from netdyno.verdicts import objective
from netdyno.verdicts import study as verdicts

STAGES: tuple[Stage, ...] = ("data", "arch", "optim", "reg")
# Of the whole budget, what the search over all knobs at once gets when the stages are over. Sweeps say what each knob does, and
# find little that the search does not; it finds what leans on each other across stages.
TOGETHER = 0.6
# Where the stages have no time for this share of their knobs the search gets all: a few knobs asked, by the order of a list, are no stage.
WORTHWHILE = 0.5
LOOKS = 2


@dataclass(kw_only=True)
class Search:
    """What is live during a search: never stored."""

    trainings: Trainings
    plan: StudyPlan
    documents: Documents
    listener: Listener
    clock: Callable[[], float]
    began: float
    study: Study
    examine: Callable[[], tuple[Any, ...]]  # outcomes of the audits of the data

    def save(self, study: Study) -> Study:
        """Keep what is known now."""
        self.study = replace(study, runs=tuple(self.trainings.runs), wall_s=self.clock() - self.began)
        self.documents.save(self.study)
        return self.study

    def keep(self, _: Run) -> None:
        """A run was made: the trainings hold it."""
        self.save(self.study)

    def seconds_left(self) -> float:
        """Of the budget."""
        return self.plan.budget_s - (self.clock() - self.began)


Step = Callable[[Search, Study], Study]


def learn(
    reference: str,
    plan: StudyPlan,
    *,
    store: Documents,
    command: str = "",
    listener: Listener = silent,
    resume: Study | None = None,
    trainer: Trainer = train,
    clock: Callable[[], float] = time.monotonic,
    examine: Callable[[str], tuple[Any, ...]] | None = None,
    began: Callable[[Path], object] = lambda _: None,
) -> Study:
    """A search from the workload as it is written to the recipe that is proven better, stage by stage.

    With `resume` its runs are not made again. `began` is told where the study lies as soon as that is known. Raises
    TargetError for a workload that cannot be built, NetdynoError where the hand-written start itself does not train.
    """
    workload = load(reference)
    study = resume or Study(
        id=store.new_id(Study, workload.name), made_by=f"netdyno {__version__}", made_at=datetime.now(UTC).isoformat(),
        command=command, target=reference, source_hash=sha256(source_of(workload).encode()).hexdigest()[:16], plan=plan,
    )  # fmt: skip
    plan = study.plan
    began(store.path(Study, study.id))
    search = Search(
        trainings=Trainings(
            setup=setup_of(workload, updates=plan.updates), kept=lambda _: None, runs=list(study.runs), trainer=trainer,
            clock=clock, listener=listener,
        ),
        plan=plan, documents=store, listener=listener, clock=clock, began=clock(), study=study,
        examine=lambda: (examine or audited)(reference),
    )  # fmt: skip
    search.trainings.kept = search.keep
    for step in steps(plan):
        study = search.save(step(search, study))
    return search.save(replace(study, finished=True))


def steps(plan: StudyPlan) -> tuple[Step, ...]:
    """What a search does, in order."""
    return (
        start,
        data,
        *(_stage(stage) for stage in STAGES if plan.shares.get(stage, 0.0) > 0),
        together,
        ladder,
        candidates,
        close,
    )


def audited(reference: str) -> tuple[Any, ...]:
    """The looks at the data, cheap ones: a regulariser is no answer to a split that is biased (ledger A-209)."""
    from netdyno.audits._base import audited as audits
    from netdyno.audits._views import opened

    return tuple(audits(opened(reference)))


def start(search: Search, study: Study) -> Study:
    """The hand-written start over all seeds: the control, and its noise."""
    if "start" in study.done:
        return study
    seeds = together_.proof_seeds(search.plan)
    runs = []
    for done, seed in enumerate(seeds):
        search.listener(Event("training the start", done, len(seeds)))
        runs.append(search.trainings.run((), seed, stage="optim", knob="start"))
    failed = [run for run in runs if run.failed is not None]
    if len(failed) == len(runs):
        raise NetdynoError(
            f"`{study.target}` does not train as it is written",
            because=str(failed[0].failed),
            hint="`netdyno doctor` says what is wrong with it",
        )
    noise = verdicts.noise_in_words(verdicts.noise(runs))
    return replace(study, noise=noise, done=(*study.done, "start"))


def data(search: Search, study: Study) -> Study:
    """The data are looked at before anything is turned."""
    if "data" in study.done:
        return study
    try:
        outcomes = search.examine()
    except NetdynoError as why:
        return replace(
            study, failures=(*study.failures, f"the data could not be looked at: {why}"), done=(*study.done, "data")
        )
    found = [
        each.finding
        for each in outcomes
        if each.state == "found" and each.finding is not None and each.finding.stage != "note"
    ]
    advice = tuple(f"{finding.id}: {finding.says}; {finding.fix}" for finding in found)
    shifted = [finding.id for finding in found if finding.id in SHIFTS]
    split = ("split-tested", *(f"shifted:{name}" for name in shifted))
    return replace(study, advice=(*study.advice, *advice), done=(*study.done, "data", *split))


# What makes a gap between training and validation that no regulariser closes.
SHIFTS = (
    "covariate-shift",
    "label-shift",
    "split-scaling",
    "leaked-duplicates",
    "leaked-groups",
    "leaked-time",
    "swapped-columns",
)


def _stage(stage: Stage) -> Step:
    def walk(search: Search, study: Study) -> Study:
        if f"stage {stage}" in study.done:
            return study
        if stage == "reg" and (no := _no_regulariser(study)) is not None:
            return replace(study, failures=(*study.failures, no), done=(*study.done, f"stage {stage}"))
        began, before = search.clock(), search.trainings.spent
        whole = sum(search.plan.shares.get(each, 0.0) for each in STAGES if f"stage {each}" not in study.done)
        left = max(0.0, search.seconds_left() - _reserved_s(search))
        budget = left * search.plan.shares[stage] / whole if whole else 0.0
        trainings = search.trainings
        trainings.stage, trainings.base = stage, study.recipe
        try:
            trainings.deadline = began + budget
            study = _sweeps(search, study, stage)
        finally:
            trainings.stage, trainings.deadline = None, None
        spent = {**study.spent, stage: study.spent.get(stage, 0.0) + search.trainings.spent - before}
        return replace(study, spent=spent, done=(*study.done, f"stage {stage}"))

    walk.__name__ = f"stage_{stage}"
    return walk


def _no_regulariser(study: Study) -> str | None:
    """Why a regulariser is not offered: the split was not tested, or it is at fault (ledger A-209)."""
    if "split-tested" not in study.done:
        return "no regulariser was tried: whether training and validation are alike was not tested"
    shifted = [name.partition(":")[2] for name in study.done if name.startswith("shifted:")]
    if shifted:
        return (
            f"no regulariser was tried: training and validation differ ({', '.join(shifted)}), which none of them mends"
        )
    return None


def knobs_of(stage: Stage, plan: StudyPlan) -> dict[str, type[Any]]:
    """The knobs of a stage that are asked for, what is quick to adopt first (ledger A-037)."""
    mine = {name: kind for name, kind in catalogue().items() if kind.stage == stage}
    asked = {
        name: kind for name, kind in mine.items() if (not plan.only or name in plan.only) and name not in plan.skip
    }
    return dict(sorted(asked.items(), key=lambda pair: (pair[1].effort_min, pair[0])))


def level_of(plan: StudyPlan) -> float:
    """The level of one look at one knob's confirmation, so that all of a search together are wrong once in 1 / (1 - level) searches.

    Each claims "better", a one-sided statement, and takes two looks. Half of what may go wrong belongs to the knobs that can be asked, in equal
    parts, and half to the search over all of them (`level_of_whole`): Bonferroni with weights that are set before anything runs.
    """
    return _weighted(plan, 0.5 / max(1, sum(len(knobs_of(stage, plan)) for stage in STAGES)))


def level_of_whole(plan: StudyPlan) -> float:
    """The level of one look at the confirmation of what the search over all knobs found."""
    return _weighted(plan, 0.5)


def _weighted(plan: StudyPlan, weight: float) -> float:
    return 1 - 2 * (1 - plan.level) * weight / LOOKS


def _sweeps(search: Search, study: Study, stage: Stage) -> Study:
    for name, kind in knobs_of(stage, search.plan).items():
        if any(each.knob == name for each in study.sweeps):
            continue
        told: dict[str, Any] = {
            "seeds": search.plan.seeds, "level": level_of(search.plan), "least_gain": search.plan.least_gain,
        }  # fmt: skip
        if name == rate_sweep.KNOB:
            found = rate_sweep.rate_sweep(search.trainings, kind, study.recipe, **told)
        else:
            found = sweep(search.trainings, name, kind, study.recipe, **told)
        study = search.save(_adopted(study, found))
        search.trainings.base = study.recipe
    return study


def _adopted(study: Study, found: Sweep) -> Study:
    recipe = study.recipe
    if found.verdict == "kept" and found.chosen is not None:
        change = found.options[found.chosen].change
        assert change is not None
        recipe = (*(each for each in recipe if each.id != change.id), change)
    return replace(study, sweeps=(*study.sweeps, found), recipe=recipe)


def _reserved_s(search: Search) -> float:
    """What the stages leave to the search over all knobs: all where there is no time to ask most of them one by one."""
    asked = _asked(search.plan)
    if joint.unavailable() is not None or sum(len(kinds) for kinds in asked.values()) < 2:
        return 0.0
    if search.plan.only:
        return TOGETHER * search.plan.budget_s
    whole_s = search.plan.budget_s
    least_s = WORTHWHILE * sum(_price_s(search, kind) for kinds in asked.values() for kind in kinds.values())
    return whole_s if least_s > (1 - TOGETHER) * whole_s else TOGETHER * whole_s


def _price_s(search: Search, kind: type[Any]) -> float:
    """What a sweep of that knob takes at most, on the start."""
    _, changes, _ = settings_of(search.trainings, kind, ())
    return runs_of(len(changes), len(search.plan.seeds)) * search.trainings.expected_s() if changes else 0.0


def _asked(plan: StudyPlan) -> dict[Stage, dict[str, type[Any]]]:
    return {stage: knobs_of(stage, plan) for stage in STAGES if plan.shares.get(stage, 0.0) > 0}


def together(search: Search, study: Study) -> Study:
    """Optuna over the knobs of all stages at once, from the staged recipe on; what it finds is raced and confirmed.

    It is kept where it is better than the start beyond noise, and likelier better than the staged recipe on the same fresh seeds.
    """
    no_reg = _no_regulariser(study)
    kinds = {
        name: kind
        for stage, mine in _asked(search.plan).items()
        if stage != "reg" or no_reg is None
        for name, kind in mine.items()
    }
    no = joint.unavailable()
    if "together" in study.done or len(kinds) < 2 or any(each.knob == together_.JOINT for each in study.sweeps):
        return study
    if no is not None:
        return replace(
            study, failures=(*study.failures, f"no search over all knobs at once: {no}"), done=(*study.done, "together")
        )
    trainings, staged = search.trainings, study.recipe
    before = trainings.spent
    try:
        found, worth = together_.found(
            trainings, kinds, study, left_s=max(0.0, search.seconds_left()),
            folder=search.documents.folder / "studies" / study.id,
        )  # fmt: skip
        trainings.deadline = None  # a confirmation that was begun is finished
        if found not in (staged, ()):
            study = search.save(together_.confirmed(trainings, study, found, worth, level=level_of_whole(search.plan)))
    finally:
        trainings.deadline = None
    spent = {**study.spent, "together": study.spent.get("together", 0.0) + trainings.spent - before}
    return replace(study, spent=spent, done=(*study.done, "together"))


def ladder(search: Search, study: Study) -> Study:
    """The recipe grown change by change on seeds of its own, each row against the one above (ledger A-036).

    Of a recipe that was searched as a whole no order of its parts was proven: it is one rung on the start, of the pairs that proved it.
    """
    alone = not study.recipe or study.recipe != _grown(study)[-1]
    seeds = together_.proof_seeds(search.plan) if alone else [3 * FRESH + seed for seed in search.plan.seeds]
    rungs: list[Rung] = []
    earlier: dict[str, dict[int, float]] | None = None
    steps = _steps(study)
    for count, (name, recipe) in enumerate(steps):
        search.listener(Event("climbing the ladder", count, len(steps)))
        stage: Stage = catalogue()[recipe[-1].id].stage if recipe else "optim"
        runs = [search.trainings.run(recipe, seed, stage=stage, knob="ladder") for seed in seeds]
        values = cells(runs)
        rungs.append(
            verdicts.rung(name, recipe, values, rungs[-1] if rungs else None, earlier=earlier, level=search.plan.level)
        )
        earlier = values
    if len(rungs) > 2:
        first = cells(search.trainings.of(()))
        last = verdicts.rung(
            "together", study.recipe, values, rungs[0], earlier=_on(first, seeds), level=search.plan.level
        )
        rungs.append(last)
    return replace(study, ladder=tuple(rungs))


def _steps(study: Study) -> tuple[tuple[str, tuple[Change, ...]], ...]:
    """The rungs by name: what the stages kept, change by change, or the recipe itself where it was searched as a whole."""
    grown = _grown(study)
    if study.recipe != grown[-1]:
        return ("start", ()), (f"{len(study.recipe)} searched together", study.recipe)
    return tuple(("start" if not recipe else f"+ {recipe[-1].id}", recipe) for recipe in grown)


def _grown(study: Study) -> tuple[tuple[Change, ...], ...]:
    """The recipe of the stages, from the start on: each was confirmed on top of the one before."""
    grown: list[tuple[Change, ...]] = [()]
    for each in study.sweeps:
        change = each.options[each.chosen].change if each.verdict == "kept" and each.chosen is not None else None
        grown += [with_change(grown[-1], change)] if change is not None else []
    return tuple(grown)


def cells(runs: Sequence[Run]) -> dict[str, dict[int, float]]:
    """What the columns of the ladder show, by seed."""
    whole = [run for run in runs if run.failed is None and run.score is not None]
    columns: dict[str, dict[int, float]] = {
        "score": {run.seed: run.score for run in whole if run.score is not None},
        "loss": {run.seed: run.loss for run in whole if run.loss is not None},
        "seconds": {run.seed: run.seconds for run in whole},
    }
    if any(run.peak_bytes for run in whole):
        columns["memory"] = {run.seed: float(run.peak_bytes) for run in whole}
    return columns


def _on(columns: dict[str, dict[int, float]], seeds: Sequence[int]) -> dict[str, dict[int, float]]:
    return {name: {seed: value for seed, value in column.items() if seed in seeds} for name, column in columns.items()}


def candidates(search: Search, study: Study) -> Study:
    """Every recipe that ran on several seeds, seen from all sides; tier by tier (ledger A-005)."""
    by_recipe: dict[bytes, list[Run]] = {}
    for run in search.trainings.runs:
        by_recipe.setdefault(msgspec.json.encode(run.recipe), []).append(run)
    several = [runs for runs in by_recipe.values() if len(runs) >= verdicts.LEAST_PAIRS]
    found = [one for one in (_candidate(search, runs) for runs in several) if one is not None]
    judged = objective.judged(found, study.plan.limits)
    tiers = [objective.feasible(search.trainings.of(study.recipe), gradient_norm=_gradient_norm(search, study.recipe))]
    proven = [*_grown(study), *(rung.recipe for rung in study.ladder)]
    mine = [one for one in judged if one.recipe in proven]
    chosen, tier = objective.best(mine, study.plan.limits) if tiers[0].ok else (None, None)
    if tier is not None:
        tiers.append(tier)
    if chosen is not None and study.plan.costs:
        chosen, tier = _worth_it(search, mine, chosen)
        tiers.append(tier)
    recipe = chosen.recipe if chosen is not None else study.recipe
    return replace(study, candidates=judged, tiers=tuple(tiers), recipe=recipe)


def _gradient_norm(search: Search, recipe: tuple[Change, ...]) -> float | None:
    """The median norm of the gradients, before anything clips them, over one more run; None where nobody saw one."""
    norms: list[float] = []

    def see(model: nn.Module, _: Any) -> None:
        found = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        if found:
            norms.append(float(torch.stack(found).norm()))

    setup = search.trainings.setup
    watched = dataclasses.replace(setup, before_step=(see, *setup.before_step))
    search.trainings.trainer(watched, seed=4 * FRESH + 1, recipe=recipe, stage="optim", knob="gradients")
    return median(norms) if norms else None


def _candidate(search: Search, runs: Sequence[Run]) -> Candidate | None:
    scores = [run.score for run in runs if run.score is not None]
    if not scores:
        return None
    recipe = runs[0].recipe
    asked = search.plan.limits.latency_s is not None
    return Candidate(
        recipe=recipe, score=fmean(scores), seconds=fmean([run.seconds for run in runs if run.score is not None]),
        bytes=max(run.peak_bytes for run in runs), feasible=objective.feasible(runs).ok is True, on_front=False,
        latency_s=latency_s(search.trainings.setup, recipe, clock=search.clock) if asked else 0.0,
    )  # fmt: skip


def _worth_it(search: Search, mine: Sequence[Candidate], chosen: Candidate) -> tuple[Candidate, Tier]:
    """Tier 3, over the seeds of the ladder: a candidate overrules the highest score only where it is worth more beyond noise."""
    plan = search.plan
    seeds = [3 * FRESH + seed for seed in plan.seeds]
    told = {
        str(one.recipe): {
            seed: priced(search.trainings.setup, one.recipe, seed, costs=plan.costs, review=plan.review)
            for seed in seeds
        }
        for one in mine
        if one.feasible
    }
    values = {name: {seed: price.value for seed, price in prices.items()} for name, prices in told.items()}
    first = values[str(chosen.recipe)]

    def value(one: Candidate) -> float:
        own = values[str(one.recipe)]
        surely = verdicts.is_better(verdicts.effect(first, own, plan.level), pairs=len(own))
        return (
            fmean(own.values())
            if one.recipe == chosen.recipe or surely
            else min(fmean(own.values()), fmean(first.values()))
        )

    richest, tier = objective.worth_it(mine, value, chosen)
    queue = fmean(price.queue for price in told[str(richest.recipe)].values())
    reviewed = f"; a person reviews {queue:.1%} of the answers" if plan.review is not None else ""
    return richest, replace(tier, says=tier.says + reviewed)


def close(_: Search, study: Study) -> Study:
    """Refuse a recipe that holds a knob without its evidence (ledger A-038), and say which knobs are broken."""
    missing = verdicts.unproven(study.recipe, _proofs(study))
    if missing:
        raise NetdynoError(
            f"cannot hand out a recipe with `{missing[0]}`",
            because="no sweep of this study proved it better",
            hint="this is a bug of netdyno worth reporting; the study's runs are kept",
        )
    said = tuple(f"the knob `{each.id}` cannot be used: {each.says}" for each in broken())
    return replace(study, failures=(*study.failures, *(one for one in said if one not in study.failures)))


def _proofs(study: Study) -> list[Sweep]:
    """Sweeps, with a joint one as one sweep for each of its changes: it proved all of them together."""
    alone: list[Sweep] = []
    for each in study.sweeps:
        if each.knob == together_.JOINT and each.verdict == "kept":
            alone += [replace(each, chosen=at) for at in range(1, len(each.options))]
        else:
            alone.append(each)
    return alone
