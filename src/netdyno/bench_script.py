"""The walk of one run on an unmodified script: the steps of `bench`, with a script in the place of a workload.

What differs is how a script is come by: it is run in a scratch copy of its folder with somebody aboard, and its evidence is
what was seen from there. Trials, verdicts and attribution are the same.
"""

import ast
import contextlib
import difflib
import hashlib
import os
import random
import re
import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from netdyno import __version__, bench
from netdyno.bench import Campaign, Replay
from netdyno.edits import _base as edits
from netdyno.edits._base import Site, Sites
from netdyno.errors import ArmError, NetdynoError, TargetError
from netdyno.interventions._base import Facts
from netdyno.lint import _base as lint
from netdyno.progress import Listener, silent
from netdyno.records.diagnosis import Experiment, Finding
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import AnyEvidence, Ending, LoaderUse, Place, ScriptTrace
from netdyno.records.record import Failure, Patch, Plan, Proposal, Record, Target, Unpatched
from netdyno.records.trial import Change
from netdyno.rules import _base as rules
from netdyno.scripts.evidence import evidence as evidence_of
from netdyno.scripts.launch import Ride, users_line
from netdyno.store import Store
from netdyno.targets.script import Script, Way, again
from netdyno.trials.experiment import EDIT, SEEDS
from netdyno.trials.experiment import prove as tried
from netdyno.trials.script_choose import facts_of, proposals
from netdyno.trials.script_lab import ScriptLab
from netdyno.verdicts import causes
from netdyno.verdicts.attribute import key_of

# How long a script is watched: for a diagnosis long enough for an epoch and its evaluation in small scripts; before trials,
# which need the rest of the budget, a part of it.
DIAGNOSIS_S, TUNING_S, WATCH_SHARE = 45.0, 10.0, 0.15
# A folder may hold a whole environment: these are not the script's own, and beyond so many files nobody looks.
NOT_OURS = {".git", ".venv", "venv", "node_modules", "site-packages", "__pycache__", ".netdyno"}
MOST_FILES = 400
# What half of all scripts are called: the folder tells them apart.
NOBODY = {"main", "train", "run", "__main__"}
IN_SETTINGS = ("in_place", "online")  # of the way a script was run, what a replay must know
# Experiments of a deep examination: beyond so many findings nobody reads on. Three seeds tell a cause from a bystander.
EXPERIMENTS, QUICK_SEEDS = 4, 3
TRIES = 2  # remedies for one finding: they share the error, and a third would be a search
OWN_FILE = "{} (your own file, which changed meanwhile)"


def tune(
    script: Script,
    plan: Plan,
    *,
    store: Store,
    way: Way = Way(),  # noqa: B008 - a value that nobody can change
    listener: Listener = silent,
    resume: Record | None = None,
    command: str = "",
) -> Record:
    """The main job on a script. Raises NetdynoError for what the user can put right."""
    tries = (listen, bench.walk, bench.prune, patch, attribute)
    steps = (bench.describe, watch(way.updates, least_s=TUNING_S), bench.diagnose_step, *tries, close)
    if resume is not None:
        plan, way = resume.plan, way_of(resume)
    campaign, record = _begin(script, plan, store, listener, way)
    return _through(steps, campaign, resume or replace(record, command=command or record.command))


def diagnose(
    script: Script,
    plan: Plan,
    *,
    store: Store,
    way: Way = Way(),  # noqa: B008 - a value that nobody can change
    listener: Listener = silent,
    command: str = "",
    deep: bool = False,
    proof: bool = False,
) -> Record:
    """Watch a script and say what holds it back. Raises NetdynoError.

    With `deep`, findings that an experiment can tell from their look-alikes get one; with `proof`, the fix of the root
    cause is tried over seeds. Both run the script anew.
    """
    asked = ((experiment,) if deep else ()) + ((prove,) if proof else ())
    look = watch(way.updates, least_s=DIAGNOSIS_S, vitals=True)
    steps = (bench.describe, look, bench.diagnose_step, read_source, *asked, close)
    campaign, record = _begin(script, plan, store, listener, way)
    return _through(steps, campaign, replace(record, command=command or record.command))


def read_source(campaign: Campaign, record: Record) -> Record:
    """Wrong forms in the script's own files, as one diagnosis with what was seen in its run."""
    campaign.says("reading the source")
    read = lint.check(own_sources(lab_of(campaign).script))
    return replace(record, outcomes=causes.merged(record.outcomes, read, rules.in_order, watchers=lint.watchers()))


def experiment(campaign: Campaign, record: Record) -> Record:
    """Short counterfactuals for the first findings that have a remedy: what does not help was not the cause."""
    asked = [each.finding for each in record.outcomes if each.finding is not None and each.finding.remedies]
    for finding in asked[:EXPERIMENTS]:
        record = _with(record, _experiment(campaign, record, finding, seeds=QUICK_SEEDS))
    return record


def prove(campaign: Campaign, record: Record) -> Record:
    """The fix of the root cause, tried over seeds."""
    first = next((each.finding for each in record.outcomes if each.finding is not None), None)
    if first is None:
        return record
    return _with(record, _experiment(campaign, record, first, seeds=SEEDS))


def _with(record: Record, made: Experiment | None) -> Record:
    if made is None:
        return record
    experiments = (*(each for each in record.experiments if each.finding != made.finding), made)
    outcomes = causes.with_experiments(record.outcomes, experiments, rules.in_order)
    return replace(record, experiments=experiments, outcomes=outcomes)


def _experiment(campaign: Campaign, record: Record, finding: Finding, *, seeds: int) -> Experiment | None:
    """The likeliest remedies that can be applied here, tried until one is proven; None when nothing applies.

    The edit that a rule of the source would make comes second: it stands near the finding, and need not be about it.
    """
    lab = lab_of(campaign)
    # Whoever stops a script that fails just before it would, sees it come through.
    whole = lab.lengths or any(isinstance(each, Ending) for each in record.evidence)
    updates = None if whole else lab.updates_seen
    edited = _edited(lab.script, finding)
    edit = (Change(id=EDIT, settings={"rule": finding.id}),) if edited else ()
    known = finding.remedies or _suggested(campaign, record, finding)
    changes = (*known[:1], *edit, *known[1:])[:TRIES]
    best: Experiment | None = None
    for change in changes:
        left_s = record.plan.budget_s - (campaign.clock() - campaign.began)
        if best is not None and left_s <= 0:
            break
        sources = edited if change.id == EDIT else None
        campaign.says(f"trying {change.label}")
        made = tried(
            lab,
            finding,
            change,
            updates=updates,
            sources=sources,
            seeds=seeds,
            tries=len(changes),
            enough_s=left_s,
        )
        made = replace(made, diff=_diff(lab.script, sources)) if sources else made
        if made.verdict == "proven" or not made.seeds:
            return made
        best = best if best is not None and best.verdict != "failed" else made
    return best


def _suggested(campaign: Campaign, record: Record, finding: Finding) -> tuple[Change, ...]:
    """Interventions that a finding about time suggests and that can be made here from outside, the most promising first."""
    if not finding.suggests:
        return ()
    offered = [
        each
        for each in _propose(campaign, record, {})
        if each.change.id in finding.suggests and not each.refused and each.predicted_high > 0
    ]
    lab_of(campaign).close()  # the script that was asked waits for its next turn, which never comes
    offered.sort(key=lambda each: -(each.predicted_low + each.predicted_high))
    return tuple(each.change for each in offered)


def _edited(script: Script, finding: Finding) -> dict[str, str]:
    """The script's files as the fix of a rule of the source would leave them; none when it has no safe one."""
    before = own_sources(script)
    found = lint.places(before).found
    return lint.fixed(
        before,
        [each for each in found if each.finding.id == finding.id or causes.near(each.finding.where, finding.where)],
    )


def _diff(script: Script, sources: dict[str, str]) -> str:
    before = sources_of(script)
    return "".join(
        line
        for file, text in sources.items()
        for line in difflib.unified_diff(
            before.get(file, "").splitlines(keepends=True), text.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
    )


def _through(steps: tuple[bench.Step, ...], campaign: Campaign, record: Record) -> Record:
    campaign.facts = _facts(record.evidence, record.ceilings)  # of a run that is resumed; else of nothing
    try:
        return bench.through(steps, campaign, record)
    finally:
        lab_of(campaign).close()


def _begin(script: Script, plan: Plan, store: Store, listener: Listener, way: Way) -> tuple[Campaign, Record]:
    campaign = Campaign(
        lab=_lab(script, plan, listener, way, seed=plan.seed),
        store=store,
        listener=listener,
        clock=time.monotonic,
        began=time.monotonic(),
        propose=_propose,
        look_under=_look_under,
    )
    return campaign, _blank(script, plan, store, way)


def _lab(script: Script, plan: Plan, listener: Listener, way: Way, *, seed: int | None = None) -> ScriptLab:
    return ScriptLab(
        script=script,
        plan=plan,
        listener=listener,
        chance=random.Random(seed),
        in_place=way.in_place,
        online=way.online,
    )


def _blank(script: Script, plan: Plan, store: Store, way: Way) -> Record:
    text = script.file.read_bytes() if script.file is not None and script.file.is_file() else b""
    name = f"{script.cwd.name}/{script.name}" if script.name in NOBODY else script.name
    target = Target(
        name=name,
        source=shlex.join(script.argv),
        item="update",
        items_per_step=1,
        steps_per_epoch=None,
        source_hash=hashlib.blake2b(text, digest_size=8).hexdigest() if text else "",
        settings={name: "yes" for name in IN_SETTINGS if getattr(way, name)},
        command=script.argv,
        folder=str(script.cwd),
    )
    return Record(
        id=store.new_id(name),
        made_by=f"netdyno {__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join(sys.argv),
        target=target,
        plan=plan,
    )


def close(campaign: Campaign, record: Record) -> Record:
    """Nothing is left to do. What a running script changed of the user's own files is said."""
    lab = lab_of(campaign)
    sessions = tuple(lab.sessions.values())
    lab.close()
    changed = sorted(set().union(*(session.touched for session in sessions)))
    return bench.close(
        campaign, replace(record, wrote=tuple(dict.fromkeys((*map(OWN_FILE.format, changed), *record.wrote))))
    )


def way_of(record: Record) -> Way:
    """How the script of a record was run, for whoever goes on with it or measures it again."""
    return Way(**{name: True for name in IN_SETTINGS if name in record.target.settings})


def lab_of(campaign: Campaign) -> ScriptLab:
    """The lab of a script."""
    assert isinstance(campaign.lab, ScriptLab)
    return campaign.lab


def watch(updates: int | None, *, least_s: float, vitals: bool = False) -> bench.Step:
    """The step that runs a script with somebody aboard: it writes the evidence. With `vitals` the numbers are looked at too."""

    def watch_step(campaign: Campaign, record: Record) -> Record:
        """Evidence from the script's own run, until so many updates or seconds."""
        campaign.says("watching the script")
        lab = lab_of(campaign)
        seen = lab.ride(
            updates=updates,
            seconds=max(least_s, WATCH_SHARE * record.plan.budget_s) if updates is None else None,
            vitals=vitals,
        )
        found = (*evidence_of(seen.stream, record.ceilings), *_ending(seen))
        if not seen.stream.updates and not (vitals and found):
            raise _no_update(lab.script, seen)
        found = from_within(lab.script.cwd, found)
        _remember(lab, seen, found)
        campaign.facts = _facts(found, record.ceilings)
        changed = map(OWN_FILE.format, seen.touched)
        return replace(
            record,
            evidence=found,
            target=replace(record.target, items_per_step=_period(found)),
            wrote=(*changed, *seen.wrote),
            failures=(*record.failures, *_failures(seen)),
        )

    return watch_step


def _remember(lab: ScriptLab, seen: Ride, found: tuple[AnyEvidence, ...]) -> None:
    """What later trials start from: how long a start takes, how long the script is, and its losses without any change."""
    lab.startup_s.append(seen.startup_s)
    lab.workers.extend(_workers(found))
    lab.seen.append(seen.stream.updates)
    lab.passes.extend(_per_pass(found))
    if seen.reason == "ended":
        lab.lengths.append(seen.stream.updates)
    if seen.stream.losses:
        lab.learn((), tuple(seen.stream.losses))


def _failures(seen: Ride) -> tuple[Failure, ...]:
    """That the script failed by itself, which does not undo what was seen before."""
    if seen.reason != "failed":
        return ()
    training = seen.stream.training
    why = training.stopped.says if training is not None and training.stopped is not None else "an error"
    says = f"the script failed by itself after {seen.stream.updates} updates: {why}"
    return (Failure(step="watch", says=says),)


def _ending(seen: Ride) -> tuple[Ending, ...]:
    """The error that ended a script before its time, as its last words have it."""
    training = seen.stream.training
    if seen.reason != "failed" or training is None or training.stopped is None:
        return ()
    error, _, message = training.stopped.says.partition(": ")
    where = users_line(seen.words or "")
    place = Place(file=where[0], line=where[1]) if where else None
    return (
        Ending(error=error, message=message, where=place, words=seen.words or "", updates=seen.stream.updates),
    )  # fmt: skip


def _no_update(script: Script, seen: Ride) -> TargetError:
    """Never an empty diagnosis: somebody was aboard, and saw nothing that counts as training."""
    return TargetError(
        f"no update was seen in `{script.name}`",
        because=f"in {seen.wall_s:.0f} s no optimizer stepped and no backward pass ended; it {_ended(seen)}",
        hint="give it more time with `--budget`, or check that these arguments make it train",
    )


def _ended(seen: Ride) -> str:
    return "came to its end" if seen.reason == "ended" else f"was stopped ({seen.reason})"


def from_within(folder: Path, evidence: tuple[AnyEvidence, ...]) -> tuple[AnyEvidence, ...]:
    """The evidence with files named as from the script's folder, where they lie in it: as its author knows them."""
    home = f"{folder}{os.sep}"

    def shorter(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: inner.removeprefix(home) if key == "file" and isinstance(inner, str) else shorter(inner)
                for key, inner in value.items()
            }
        return [shorter(inner) for inner in value] if isinstance(value, list | tuple) else value

    return tuple(msgspec.convert(shorter(msgspec.to_builtins(item)), type(item)) for item in evidence)


def _facts(evidence: tuple[AnyEvidence, ...], ceilings: Ceilings | None) -> Facts:
    return {**facts_of(evidence), **({Ceilings: ceilings} if ceilings is not None else {})}


def _workers(evidence: tuple[AnyEvidence, ...]) -> list[int]:
    return [
        loader.workers for item in evidence if isinstance(item, LoaderUse) for loader in item.loaders if loader.trains
    ]


def _period(evidence: tuple[AnyEvidence, ...]) -> int:
    """Updates of one iteration: more than one where optimizers take turns."""
    trace = _trace(evidence)
    return (trace.cycle or 1) if trace is not None else 1


def _trace(evidence: tuple[AnyEvidence, ...]) -> ScriptTrace | None:
    return next((item for item in evidence if isinstance(item, ScriptTrace)), None)


def _per_pass(evidence: tuple[AnyEvidence, ...]) -> list[int]:
    """Iterations of one pass over the training data; none where updates take turns, or batches are not counted."""
    trace = _trace(evidence)
    batches = [
        loader.batches_per_pass
        for item in evidence
        if isinstance(item, LoaderUse)
        for loader in item.loaders
        if loader.trains and loader.batches_per_pass
    ]
    if trace is None or trace.cycle != 1 or len(batches) != 1 or not trace.events:
        return []
    usual = max(trace.events, key=lambda event: event[1])[0]
    fetched = re.search(r"\bdata(?:\*(\d+))?", usual)
    return [batches[0] // int(fetched[1] or 1)] if fetched else []


def listen(campaign: Campaign, record: Record) -> Record:
    """The noise of an A/A trial inside the running script."""
    campaign.says("listening to the noise")
    bench.listen_to_noise(campaign.lab, record.recipe)
    return record


def _propose(campaign: Campaign, record: Record, trust: dict[str, float]) -> tuple[Proposal, ...]:
    return proposals(lab_of(campaign), campaign.facts, recipe=record.recipe, trust=trust)


def _look_under(_: Campaign, __: Record, ___: tuple[str, ...]) -> tuple[AnyEvidence, ...]:
    """Nothing new: what the next trial starts from is seen in its own turns."""
    return ()


def patch(campaign: Campaign, record: Record) -> Record:
    """The kept recipe as an edit of the source. It runs in place of the recipe when the gain is attributed."""
    if not record.recipe:
        return record
    campaign.says("writing the patch")
    made, unsafe = _edits(lab_of(campaign), record)
    by_id = {change.id: change for change in record.recipe}
    unpatched = tuple(
        Unpatched(
            change=by_id[each.change],
            why=each.why,
            where=Place(file=each.where.file, line=each.where.line) if each.where else None,
        )
        for each in unsafe
    )
    files = tuple(edit.file for edit in made)
    return replace(record, patch=Patch(diff=edits.unified(made), files=files, unpatched=unpatched))


def _edits(lab: ScriptLab, record: Record) -> tuple[tuple[edits.Edit, ...], tuple[edits.Unsafe, ...]]:
    """What the recipe is as an edit. Where that is complete, the lab runs the edited script in the recipe's place."""
    made, unsafe = edits.patch(record.recipe, sources_of(lab.script), sites_of(lab.script, record.evidence))
    if made and not unsafe:
        lab.edited[key_of(record.recipe)] = {edit.file: edit.after for edit in made}
    return made, unsafe


def sources_of(script: Script) -> dict[str, str]:
    """The Python files of the script's folder, by their paths in it: its own, and what it may import from there."""
    found = sorted(script.cwd.rglob("*.py")) if script.cwd.is_dir() else []
    own = [file for file in found if not NOT_OURS & set(file.relative_to(script.cwd).parts)][:MOST_FILES]
    texts: dict[str, str] = {}
    for file in own:
        with contextlib.suppress(OSError, UnicodeDecodeError), file.open(encoding="utf-8", newline="") as text:
            texts[str(file.relative_to(script.cwd))] = text.read()
    return texts


def own_sources(script: Script) -> dict[str, str]:
    """The script's file and the modules of its folder that it imports, however far down; all files when it has none.

    In a folder of many scripts the others are nobody's business.
    """
    everything = sources_of(script)
    if script.file is None:
        return everything
    home = os.path.dirname(_inside(script, str(script.file)))
    reached, left = {}, [_inside(script, str(script.file))]
    while left:
        file = left.pop()
        if file in reached or file not in everything:
            continue
        reached[file] = everything[file]
        left += [os.path.normpath(os.path.join(home, path)) for path in _imported(everything[file])]
        left += _imported(everything[file])
    return reached


def _imported(text: str) -> list[str]:
    """Where modules that a source imports would lie, relative to its folder."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    paths = [name.replace(".", os.sep) for name in names]
    return [f"{path}.py" for path in paths] + [os.path.join(path, "__init__.py") for path in paths]


def sites_of(script: Script, evidence: tuple[AnyEvidence, ...]) -> Sites:
    """Where the script was seen to build and use what changes take hold of, with files named as in its folder."""
    trace = _trace(evidence)
    places = trace.places if trace is not None else {}
    kinds = {
        kind: tuple(
            Site(_inside(script, place.file), place.line) for place in places.get(kind, ()) if place.file and place.line
        )
        for kind in Sites._fields
        if kind != "main"
    }
    return Sites(**kinds, main=_inside(script, str(script.file)) if script.file is not None else "")


def _inside(script: Script, file: str) -> str:
    path = Path(os.path.abspath(script.cwd / file))  # links stay as the author wrote them
    return str(path.relative_to(script.cwd)) if path.is_relative_to(script.cwd) else str(path)


def attribute(campaign: Campaign, record: Record) -> Record:
    """The whole gain, split over the kept changes; the total is that of the edited script, where the edit is complete."""
    lab = lab_of(campaign)
    if record.patch is not None and not lab.edited:  # the run was cut short after the patch was written
        _edits(lab, record)
    record = bench.attribute(campaign, record)
    if record.patch is None or not record.patch.files:
        return record
    return replace(record, patch=_verified(lab, record, record.patch))


def _verified(lab: ScriptLab, record: Record, patch: Patch) -> Patch:
    """What running the edited script showed: its losses against those of the recipe, and the speed-up that is claimed."""
    if key_of(record.recipe) not in lab.edited:
        changes = ", ".join(each.change.id for each in patch.unpatched)
        return replace(patch, says=f"not run: {changes} cannot be written into the source with certainty")
    if record.attribution is None:
        return replace(patch, verified=False, says="the edited script could not be timed against the original")
    try:
        edited = lab.ride(
            sources=lab.edited[key_of(record.recipe)],
            updates=lab.course[0] if lab.course else None,
            watch=False,
            hz=0.0,
        )
        parity = lab.same_path(record.recipe, tuple(edited.stream.losses))
    except (ArmError, NetdynoError) as problem:
        return replace(patch, verified=False, says=f"the edited script did not run: {problem}")
    holds = parity is None or parity.holds
    faster = record.attribution.speedup.low > 1
    says = "the edited script was run against the original: the total above is its own"
    if not holds:
        says = "the edited script does not train along the path of the recipe that was proven"
    elif not faster:
        says = "the edited script was run against the original, and is not surely faster"
    return replace(patch, verified=holds and faster, says=says, parity=parity)


def replay(record: Record, *, listener: Listener = silent) -> Replay:
    """Measure the kept recipe of a script against the script as it is, afresh. Raises NetdynoError."""
    if record.attribution is None or record.environment is None:
        raise bench.nothing_claimed(record)
    script = again(record.target.command, record.target.folder)
    lab = _lab(script, record.plan, listener, way_of(record))
    if record.patch is not None and record.patch.verified:  # what was claimed is claimed of the edited script
        _edits(lab, record)
    try:
        return bench.replayed(record, lab)
    finally:
        lab.close()
