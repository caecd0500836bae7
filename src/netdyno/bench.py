"""The walk of one run, as a list of steps: read this first.

Each step takes the record of what is known, adds its own part, and the record is saved before the next begins.
A later step reads what earlier ones wrote and never changes it.
"""

import hashlib
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from netdyno import __version__, arms
from netdyno.arms.last_words import sentence_of
from netdyno.errors import ArmError, NetdynoError, TargetError
from netdyno.interventions._base import Facts, applied, catalogue, facts_from, read
from netdyno.measure.baselines import baselines
from netdyno.measure.ceilings import ceilings
from netdyno.measure.environment import describe as describe_environment
from netdyno.measure.smoke import smoke
from netdyno.probes import _base as probes
from netdyno.progress import Event, Listener, silent
from netdyno.records.diagnosis import Outcome
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.evidence import AnyEvidence, StepTimeline
from netdyno.records.measured import Interval
from netdyno.records.record import Failure, Plan, Proposal, Record, SmokeCheck, Target
from netdyno.records.trial import Change, Prediction, Trial, Verdict
from netdyno.rules import _base as rules
from netdyno.stats.sequential import campaign_error
from netdyno.store import Store
from netdyno.targets import workload as workloads
from netdyno.targets.place import place_of
from netdyno.trials.again import Again, second_chance
from netdyno.trials.attempt import noise_of, try_change, undone
from netdyno.trials.choose import Choice, best_setting, due, next_choice, proposals, remembered_as
from netdyno.trials.lab import TRIAL_S, AnyLab, Lab, wall_of
from netdyno.trials.ladder import climb
from netdyno.verdicts import attribute as attribution
from netdyno.verdicts import compare, guards, predictions, words
from netdyno.verdicts.judge import judge, seen_in

# Parts of the budget. Attribution gets what the walk leaves, at least the rest: a gain that is not attributed is not claimed.
BASELINE, NOISE, GATHER, WALK, PRUNE, FIRST_TRIAL = 0.10, 0.03, 0.10, 0.60, 0.68, 0.80
# Trials of one intervention in a campaign: another when its prospects have grown, or when it lay too near the line.
CHANCES = 2
ONE_TRIAL = 0.25  # of the budget, at most
PROBED_AGAIN = ("step-timeline", "loader-profile")  # what a kept change may move


@dataclass(kw_only=True)
class Campaign:
    """What is live during a run: never stored."""

    lab: AnyLab
    store: Store
    listener: Listener
    clock: Callable[[], float]
    began: float
    propose: "Propose"
    look_under: "LookUnder"
    facts: Facts = field(default_factory=dict)

    def left(self, share: float = 1.0) -> float:
        """Seconds until `share` of the budget is spent."""
        return self.lab.plan.budget_s * share - (self.clock() - self.began)

    def says(self, doing: str) -> None:
        """Tell whoever listens; the total is the budget."""
        self.listener(Event(doing, self.clock() - self.began, self.lab.plan.budget_s))


Step = Callable[[Campaign, Record], Record]
# What could be tried now, given the trust that each intervention's earlier predictions have earned.
Propose = Callable[[Campaign, Record, dict[str, float]], tuple[Proposal, ...]]
# Fresh evidence under the recipe so far, of the probes named.
LookUnder = Callable[[Campaign, Record, tuple[str, ...]], tuple[AnyEvidence, ...]]


def tune(
    reference: str,
    plan: Plan,
    *,
    store: Store,
    listener: Listener = silent,
    resume: Record | None = None,
    command: str = "",
) -> Record:
    """The main job: measure, diagnose, try, prove, attribute. Raises NetdynoError for what the user can put right."""
    steps = (describe, check, baseline_step, gather, diagnose_step, walk, prune, attribute, close)
    return _run(steps, reference, plan, store=store, listener=listener, resume=resume, command=command)


def baseline(reference: str, plan: Plan, *, store: Store, listener: Listener = silent, command: str = "") -> Record:
    """The four baselines and nothing else."""
    return _run(
        (describe, check, baseline_step, close), reference, plan, store=store, listener=listener, command=command
    )


def diagnose(reference: str, plan: Plan, *, store: Store, listener: Listener = silent, command: str = "") -> Record:
    """Baselines, evidence and findings, without trying anything."""
    steps = (describe, check, baseline_step, gather, diagnose_step, close)
    return _run(steps, reference, plan, store=store, listener=listener, command=command)


def _run(
    steps: tuple[Step, ...],
    reference: str,
    plan: Plan,
    *,
    store: Store,
    listener: Listener,
    command: str,
    resume: Record | None = None,
) -> Record:
    campaign, record = _begin(reference, plan, store=store, listener=listener, resume=resume, command=command)
    try:
        return through(steps, campaign, record)
    finally:
        arms.shut()


def through(steps: tuple[Step, ...], campaign: Campaign, record: Record) -> Record:
    """Walk the steps that the record has not done yet; it is saved after each."""
    spent = record.wall_s
    for step in steps:
        name = step.__name__.removesuffix("_step")
        if name in record.done:
            continue
        record = _stepped_into(step, campaign, record)
        wall = spent + campaign.clock() - campaign.began
        record = replace(record, done=(*record.done, name), wall_s=wall)
        campaign.store.save(record)
    return record


def _stepped_into(step: Step, campaign: Campaign, record: Record) -> Record:
    """One step; what the user's own code raises meanwhile is theirs to put right, and says so with its line."""
    try:
        return step(campaign, record)
    except NetdynoError:
        raise
    except Exception as error:
        place = place_of(error)
        if not place:
            raise
        raise TargetError(
            f"`{record.target.source}` failed in the step `{step.__name__.removesuffix('_step')}`",
            because=f"it raised `{sentence_of(error)}`{place}",
            hint="step it once in a Python session: `next(workload.fresh().feed.epochs())` reads a batch",
        ) from error


def _begin(
    reference: str, plan: Plan, *, store: Store, listener: Listener, resume: Record | None, command: str
) -> tuple[Campaign, Record]:
    workload = workloads.load(reference)
    if resume is not None:
        plan = resume.plan
    lab = Lab(
        reference=reference,
        workload=workload,
        plan=plan,
        listener=listener,
        chance=random.Random(plan.seed),
    )
    campaign = Campaign(
        lab=lab,
        store=store,
        listener=listener,
        clock=time.monotonic,
        began=time.monotonic(),
        propose=_propose,
        look_under=_look_under,
    )
    if resume is not None:
        campaign.facts = facts_from((*resume.evidence, *resume.after))
        return campaign, resume
    source = workloads.source_of(workload)
    target = Target(
        name=workload.name,
        source=reference,
        item=workload.item,
        items_per_step=workload.batch_size,
        steps_per_epoch=lab.per_epoch,
        source_hash=hashlib.blake2b(source.encode(), digest_size=8).hexdigest() if source else "",
        device=workload.device,
    )
    return campaign, Record(
        id=store.new_id(workload.name),
        made_by=f"netdyno {__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command or " ".join(sys.argv),
        target=target,
        plan=plan,
    )


def _lab(campaign: Campaign) -> Lab:
    """The lab of a declared workload."""
    assert isinstance(campaign.lab, Lab)
    return campaign.lab


def describe(campaign: Campaign, record: Record) -> Record:
    """The machine: what it is, and what it can do at best (cached)."""
    campaign.says("looking at the machine")
    environment = describe_environment(record.target.device, seed=record.plan.seed)
    return replace(record, environment=environment, ceilings=machine_ceilings(campaign.store, environment))


def machine_ceilings(store: Store, environment: Environment) -> Ceilings | None:
    """The ceilings of this machine, measured once and then read from the store."""
    known = store.load_ceilings(environment.id)
    if known is None:
        known = ceilings(environment)
        store.save_ceilings(known)
    return known


def check(campaign: Campaign, record: Record) -> Record:
    """The smoke baseline: what is plainly broken is named before anything is measured.

    Raises NetdynoError when the target cannot be stepped at all.
    """
    campaign.says("smoke baseline")
    # Too little time leaves checks out, and a fault that was not looked for costs more than these seconds.
    budget_s = min(60.0, max(10.0, 0.06 * record.plan.budget_s))
    folder = campaign.store.artifacts / record.id
    found = smoke(_lab(campaign).workload, folder=folder, budget_s=budget_s, listener=campaign.listener)
    record = replace(record, smoke=found)
    stopper = _stopper(found)
    if stopper is not None:
        campaign.store.save(record)
        raise TargetError(
            f"`{record.target.source}` cannot be put on the dyno: {stopper.name}",
            because=stopper.says,
            hint=stopper.hint or f"`netdyno show {record.id}` lists all that was checked",
        )
    return record


def _stopper(found: tuple[SmokeCheck, ...]) -> SmokeCheck | None:
    """The fault that has to be put right first: every sample must be readable, and a step must have a finite loss.

    Other faults (a label that never occurs, a loss that does not fall) are told in the report; the target can be
    stepped all the same.
    """
    failed = [check for check in found if check.ok is False]
    if any(check.name in {"samples", "loss"} for check in failed) or not _stepped(found):
        return failed[0] if failed else None
    return None


def _stepped(found: tuple[SmokeCheck, ...]) -> bool:
    return any(check.name == "loss" and check.ok for check in found)


def baseline_step(campaign: Campaign, record: Record) -> Record:
    """The four baselines, the spread of the validation loss, and the noise of an A/A trial."""
    campaign.says("four baselines")
    lab = _lab(campaign)
    budget_s = BASELINE * record.plan.budget_s
    found = baselines(
        lab.workload,
        seed=record.plan.seed,
        budget_s=budget_s,
        listener=campaign.listener,
        environment=record.environment.id if record.environment else "",
    )
    with suppress(ArithmeticError):
        found = replace(found, stability=guards.stability(lab.learning((), step_s=wall_of(found.step))))
    listen_to_noise(lab, record.recipe)
    return replace(record, baseline=found)


def listen_to_noise(lab: AnyLab, recipe: tuple[Change, ...]) -> None:
    """How far two equal sides lie apart under a recipe: it decides how many pairs the next trials are given."""
    if lab.form(recipe) == "in-process":
        with suppress(ArmError):
            lab.noise["in-process"] = noise_of(lab, recipe=recipe, budget_s=NOISE * lab.plan.budget_s)


def gather(campaign: Campaign, record: Record) -> Record:
    """All probes. One that fails becomes a sentence in the record."""
    campaign.says("gathering evidence")
    evidence, failures = probes.gather(
        _lab(campaign).workload,
        seed=record.plan.seed,
        ceilings=record.ceilings,
        budget_s=GATHER * record.plan.budget_s,
        listener=campaign.listener,
    )
    campaign.facts = with_ceilings(evidence, record.ceilings)
    return replace(record, evidence=evidence, failures=(*record.failures, *failures))


def with_ceilings(evidence: tuple[AnyEvidence, ...], known: Ceilings | None) -> Facts:
    facts = dict(facts_from(evidence))
    if known is not None:
        facts[Ceilings] = known
    return facts


def diagnose_step(_: Campaign, record: Record) -> Record:
    """What holds the model back: rules over stored evidence."""
    return replace(record, outcomes=rediagnosed(record))


def rediagnosed(record: Record) -> tuple[Outcome, ...]:
    """The rules run over a record's evidence; needs no device, and no torch."""
    return rules.diagnose(
        record.evidence, environment=record.environment, ceilings=record.ceilings, baseline=record.baseline
    )


def walk(campaign: Campaign, record: Record) -> Record:
    """Propose, try, judge, keep; after each change that is kept, look again where the time goes."""
    tried: dict[str, float] = {}
    for trial in record.trials:
        tried[remembered_as(trial.change)] = trial.prediction.middle if trial.prediction else 0.0
    trust = predictions.trust(campaign.store.records())
    while _left_to_walk(campaign, record) > 0:
        spent = Counter(trial.change.id for trial in record.trials)
        tried |= {name: math.inf for name, times in spent.items() if times >= CHANCES}
        record = replace(record, proposals=campaign.propose(campaign, record, trust))
        choice = next_choice(record.proposals, tried=tried, timeline=campaign.facts.get(StepTimeline))
        if choice is None:
            again = _again(campaign, record, spent)
            if again is None:
                break
            campaign.says(f"trying {again.proposal.change.id} again: it saves about what is asked for")
            record = _tried(campaign, record, again.proposal, pairs=again.pairs)
            campaign.store.save(record)
            continue
        tried[remembered_as(choice.proposals[0].change)] = max(
            (each.predicted_low + each.predicted_high) / 2 for each in choice.proposals
        )
        if _left_to_walk(campaign, record) < _price(campaign, record, choice):
            continue
        campaign.says(f"trying {choice.id}")
        proposal = best_setting(campaign.lab, choice, against=record.recipe)
        # Who comes last need leave nothing to others.
        last = not due(record.proposals, tried) - {choice.id}
        record = _tried(campaign, record, proposal, most_s=campaign.left(WALK) if last else 0.0)
        campaign.store.save(record)
    return record


def _again(campaign: Campaign, record: Record, spent: Mapping[str, int]) -> Again | None:
    """What lay too near the line to be decided gets its second chance when nothing else is left to try."""
    plan = record.plan
    if plan.goal != "time":
        return None
    return second_chance(
        record.proposals,
        record.trials,
        record.verdicts,
        spent=spent,
        chances=CHANCES,
        line=plan.least_gain,
        error=_error(plan),
        most_pairs=plan.max_pairs,
        seconds=min(_trial_s(plan), _left_to_walk(campaign, record)),
    )


def _left_to_walk(campaign: Campaign, record: Record) -> float:
    """Seconds left for trials. The first may come later: on a busy machine, looking can eat the walk's part."""
    return campaign.left(WALK if record.trials else FIRST_TRIAL)


def _price(campaign: Campaign, record: Record, choice: Choice) -> float:
    """Seconds that a trial of this kind takes: what the dearest of its form took so far, or a first guess."""
    lab = campaign.lab
    form = lab.form(*((*record.recipe, proposal.change) for proposal in choice.proposals))
    known = [trial.cost_s for trial in record.trials if trial.form == form]
    guess = max(proposal.seconds for proposal in choice.proposals)
    return min(max([*known, guess]), _trial_s(record.plan))


def _trial_s(plan: Plan) -> float:
    """The most that one trial may take: no single question may eat a whole budget."""
    return min(plan.trial_s, ONE_TRIAL * plan.budget_s)


def prune(campaign: Campaign, record: Record) -> Record:
    """Each change of the recipe must still earn its place beside those that came after it.

    A later change may have made an earlier one superfluous. Every change but the last is tried once more, against the
    recipe without it, and leaves when that shows less than the least gain.
    """
    for change in record.recipe[:-1]:
        lab = campaign.lab
        rest = tuple(each for each in record.recipe if each != change)
        if campaign.left(PRUNE) < (0 if lab.form(rest, record.recipe) == "in-process" else TRIAL_S["processes"]):
            continue
        campaign.says(f"does {change.id} still earn its place?")
        trial = try_change(
            lab,
            change,
            against=rest,
            error=_error(record.plan),
            budget_s=min(record.plan.trial_s, max(campaign.left(PRUNE), 5.0)),
            checked=False,
        )
        verdict = _superfluous(record, trial)
        if verdict is None:
            continue
        record = replace(
            record,
            trials=(*record.trials, trial),
            verdicts=(*record.verdicts, verdict),
            recipe=tuple(each for each in record.recipe if each != change),
        )
        campaign.store.save(record)
    return record


def _superfluous(record: Record, trial: Trial) -> Verdict | None:
    """The verdict that sends a change away; None when it stays, as it does while nobody knows better."""
    plan = record.plan
    seen = seen_in(
        trial,
        least_gain=plan.least_gain,
        error=_error(plan),
    )
    if plan.goal == "memory" or trial.failed or seen is None:
        return None
    if seen.decision != "drop" and not (seen.decision == "undecided" and seen.gain.middle < plan.least_gain / 2):
        return None
    return Verdict(
        trial=len(record.trials),
        decision="drop",
        gain=seen.gain,
        reasons=(f"no longer earns its place beside what came after it: saves {words.saved(seen.gain)} there",),
    )


def _propose(campaign: Campaign, record: Record, trust: dict[str, float]) -> tuple[Proposal, ...]:
    lab = _lab(campaign)
    with applied(record.recipe, lab.workload.fresh(record.plan.seed)) as subject:
        return proposals(lab, subject, campaign.facts, recipe=record.recipe, trust=trust)


def _tried(
    campaign: Campaign, record: Record, proposal: Proposal, *, pairs: int | None = None, most_s: float = 0.0
) -> Record:
    plan = record.plan
    error = _error(plan)
    trial = try_change(
        campaign.lab,
        proposal.change,
        against=record.recipe,
        error=error,
        prediction=Prediction(low=proposal.predicted_low, high=proposal.predicted_high, why=proposal.why),
        budget_s=max(
            min(_trial_s(plan), max(campaign.left(WALK), _trial_s(plan) / 3)),
            min(plan.trial_s, most_s),
        ),
        pairs=pairs,
    )
    verdict = judge(
        trial,
        number=len(record.trials),
        least_gain=plan.least_gain,
        error=error,
        bottleneck=_quantified(record, proposal),
        undone=undone(trial),
        goal=plan.goal,
        time_price=plan.time_price,
    )
    record = replace(record, trials=(*record.trials, trial), verdicts=(*record.verdicts, verdict))
    if verdict.decision != "keep":
        return record
    record = replace(record, recipe=(*record.recipe, proposal.change))
    _look_again(campaign, record)
    return record


def _error(plan: Plan) -> float:
    """One trial's part of the campaign's error: it is shared by every intervention there is, each with its second chance."""
    return campaign_error(plan.error, trials=CHANCES * len(catalogue()))


def _quantified(record: Record, proposal: Proposal) -> str | None:
    """The first tick: what was measured beforehand that this change is meant to cure."""
    for outcome in record.outcomes:
        if outcome.finding is not None and proposal.change.id in outcome.finding.suggests:
            return outcome.finding.says
    return proposal.why or None


def _look_again(campaign: Campaign, record: Record) -> None:
    """Where the time goes under the recipe so far: the next prediction starts from there."""
    evidence = campaign.look_under(campaign, record, PROBED_AGAIN)
    campaign.facts = {**campaign.facts, **facts_from(evidence)}
    listen_to_noise(campaign.lab, record.recipe)


def _look_under(campaign: Campaign, record: Record, only: tuple[str, ...]) -> tuple[AnyEvidence, ...]:
    """What some probes say of the target under the recipe."""
    evidence, _ = probes.gather(
        _lab(campaign).workload,
        seed=record.plan.seed,
        ceilings=record.ceilings,
        budget_s=GATHER * record.plan.budget_s / 3,
        listener=campaign.listener,
        only=only,
        applied=partial(applied, record.recipe),
    )
    return evidence


def attribute(campaign: Campaign, record: Record) -> Record:
    """The whole gain, measured afresh in processes of their own, and split over the kept changes."""
    if not record.recipe:
        return record
    campaign.says("attributing the gain")
    began = campaign.clock()
    try:
        found = climb(campaign.lab, record.recipe, budget_s=max(campaign.left(), 20.0))
    except ArmError as problem:
        return replace(record, failures=(*record.failures, Failure(step="attribute", says=problem.says)))
    split = attribution.attribute(
        order=record.recipe,
        arms=found.arms,
        check_baseline=found.check_baseline,
        check_final=found.check_final,
        level=record.plan.level,
        codes={change.label: read(change).code() for change in record.recipe},
        trials={trial.change.label: number for number, trial in enumerate(record.trials)},
        form=campaign.lab.rungs(tuple(arm.recipe for arm in found.arms)),
    )
    split = replace(split, steps_per_epoch=campaign.lab.per_epoch, cost_s=campaign.clock() - began)
    return replace(record, attribution=split, after=campaign.look_under(campaign, record, ("step-timeline",)))


def close(_: Campaign, record: Record) -> Record:
    """Nothing is left to do."""
    return replace(record, finished=True)


class Replay(NamedTuple):
    """Whether a claim still holds, measured afresh."""

    holds: bool
    says: str
    claimed: Interval
    measured: Interval
    differences: tuple[str, ...]


def replay(record: Record, *, listener: Listener = silent) -> Replay:
    """Measure the kept recipe against the baseline again, in fresh processes.

    Raises NetdynoError when the record claims nothing.
    """
    if record.attribution is None or record.environment is None:
        raise nothing_claimed(record)
    lab = Lab(
        reference=record.target.source,
        workload=workloads.load(record.target.source),
        plan=record.plan,
        listener=listener,
        chance=random.Random(),
    )
    try:
        return replayed(record, lab)
    finally:
        arms.shut()


def nothing_claimed(record: Record) -> NetdynoError:
    """The answer to whoever wants a claim measured again that was never made."""
    return NetdynoError(
        f"cannot replay `{record.id}`",
        because="it claims no gain: nothing was kept, or it did not get as far as the attribution",
        hint="`netdyno show` says what was found; `netdyno tune --resume` finishes a run that was cut short",
    )


def replayed(record: Record, lab: AnyLab) -> Replay:
    """The claim of a record beside what the lab measures of it now."""
    assert record.attribution is not None
    assert record.environment is not None
    found = climb(lab, record.recipe, budget_s=record.plan.budget_s / 4, rungs=False)
    measured = attribution.speedup(found.check_baseline, found.check_final, level=record.plan.level)
    claimed = record.attribution.speedup
    here = describe_environment(record.target.device, seed=record.plan.seed)
    different = tuple(difference.key for difference in compare.differences(record.environment, here))
    holds = measured.low <= claimed.high and claimed.low <= measured.high
    verb = "holds" if holds else "does not hold"
    return Replay(
        holds=holds,
        says=(
            f"the claim {verb}: {claimed.middle:.2f}× ({claimed.low:.2f} to {claimed.high:.2f}) was claimed, "
            f"{measured.middle:.2f}× ({measured.low:.2f} to {measured.high:.2f}) is measured"
        ),
        claimed=claimed,
        measured=measured,
        differences=different,
    )


__all__ = ["Replay", "baseline", "diagnose", "replay", "tune"]
