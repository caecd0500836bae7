"""What was told from aboard, as evidence that rules read."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from statistics import median
from typing import Any

import msgspec

from netdyno.records.environment import Ceilings
from netdyno.records.evidence import (
    GAP,
    AnyEvidence,
    Chore,
    Chores,
    EvaluationUse,
    LayerTable,
    LineCost,
    LineCosts,
    Loader,
    LoaderUse,
    MemoryAccount,
    Op,
    OpTable,
    OptimizerUse,
    ParameterUse,
    Place,
    ScriptTrace,
    StepTimeline,
    Stretch,
    SyncSite,
    SyncSites,
    ThreadUse,
    UpdateOrder,
)
from netdyno.records.measured import Split
from netdyno.scripts.ranks import ranks_of
from netdyno.scripts.stream import Process, Stream, Tick

OWN = "netdyno"  # the phase of our own code
# Before anything was called, and between our own doings, nothing is known of what a script does.
NAMELESS = f"{GAP}{OWN}"
# A gap counts as named when the sampler met four fifths of it on three lines, in so many looks that chance cannot.
NAMED_SHARE, NAMED_LINES, NAMED_LOOKS = 0.8, 3, 10
WORK = ("forward", "loss", "backward", "recompute", "clip", "optimizer", "zero_grad", "scheduler")
# What operators were counted in aboard, and what rules call the work of an update.
COUNTED = ("forward", "loss", "backward", "optimizer")
# Where more of the operators' time than this is a stranger's, nobody knows how many operations an update has.
FOREIGN = 0.1
# Reads beside the work stop nothing that training waits for.
BESIDE = ("evaluation", "save", "log", "netdyno")


class LoaderTold(msgspec.Struct, frozen=True, kw_only=True):
    """A loader that was iterated over, as aboard writes it down; `length` is in batches."""

    file: str = ""
    line: int = 0
    sampler: str = ""
    shuffled: bool = False
    batch_size: int | None = None
    workers: int = 0
    pin_memory: bool = False
    persistent: bool = False
    iterable: bool = False
    dataset: str = ""
    length: int | None = None
    used_for: str | None = None
    iterations_started: int = 0
    batches: int = 0
    first_batch_s: float | None = None
    own_order: bool | None = None
    build_s: float = 0.0
    labels_vary: bool | None = None
    sequence: bool = False


class WithGradientsTold(msgspec.Struct, frozen=True, kw_only=True):
    """Passes in a row that recorded a graph which nobody used."""

    count: int
    file: str = ""
    line: int = 0
    seconds: float = 0.0


class EvaluationTold(msgspec.Struct, frozen=True, kw_only=True):
    """Top-level passes without gradients."""

    forwards: int = 0
    seconds: float = 0.0
    with_gradients: WithGradientsTold | None = None
    own_forwards: int = 0
    own_rounds: int = 0
    file: str = ""
    line: int = 0


class ParametersTold(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of models that ran in training."""

    total: int = 0
    never: tuple[str, ...] = ()
    never_count: int = 0
    in_no_optimizer: tuple[str, ...] = ()
    ran_and_never: tuple[str, ...] | None = None
    ran_and_never_count: int | None = None


class OrderTold(msgspec.Struct, frozen=True, kw_only=True):
    """What is odd about the order of calls."""

    clip_before_unscale: tuple[str, int] | None = None
    skipped_updates: int = 0
    skipped_late: int = 0
    gradients_never_cleared: bool = False


class SyncTold(msgspec.Struct, frozen=True, kw_only=True):
    """A line that reads a tensor's value; `on_host` where the value lies there already."""

    file: str
    line: int
    call: str
    per_update: float
    phase: str = ""
    on_host: bool = True


class ChoreTold(msgspec.Struct, frozen=True, kw_only=True):
    """A line that saves or logs."""

    file: str
    line: int
    count: int
    seconds: float


class MemoryTold(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of tensors by what they are for; and of the process at its peak, and what it could have had."""

    parameters: int
    buffers: int
    gradients: int
    optimizer_state: int
    activations: int
    peak: int
    available: int
    capacity: int


class CountedTold(msgspec.Struct, frozen=True, kw_only=True):
    """One update, counted operator by operator: name, calls and seconds of each; work in its own phases."""

    ops: tuple[tuple[str, float, float], ...]
    dispatches: float
    operator_s: float
    outside_s: float
    foreign_s: float
    flops: float
    forward_flops: float
    bytes: float
    dtype: str
    memory: MemoryTold
    uncounted: int = 0


class ThreadsTold(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that the process may use, and what others used of them."""

    cores: int
    interop: int
    others_share: float | None


class CensusTold(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted, or why not. The times of `dropped` updates are in no phase."""

    why: str | None = None
    dropped: int = 0
    cost_s: float = 0.0
    counted: CountedTold | None = None
    threads: ThreadsTold | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The tick's `facts`, as far as rules read them."""

    loaders: tuple[LoaderTold, ...] = ()
    evaluation: EvaluationTold = EvaluationTold()
    parameters: ParametersTold = ParametersTold()
    order: OrderTold = OrderTold()
    syncs: tuple[SyncTold, ...] = ()
    saves: tuple[ChoreTold, ...] = ()
    logs: tuple[ChoreTold, ...] = ()
    places: dict[str, tuple[tuple[str, int], ...]] = {}
    modules: tuple[tuple[str, str, int], ...] = ()
    weights: tuple[tuple[str, str, int], ...] = ()
    gaps: dict[str, tuple[tuple[str, int, int, float, str], ...]] = {}
    scaler: bool = False
    direct_forward_calls: bool = False
    census: CensusTold | None = None


def evidence(stream: Stream, ceilings: Ceilings | None = None) -> tuple[AnyEvidence, ...]:
    """What the ride showed of the process that trains. Nothing where no update was seen, and no kind without its facts.

    With `ceilings` the work of an update is told together with where on this machine arithmetic and memory balance.
    """
    process = stream.training
    if process is None or process.tick is None:
        return ()
    tick = process.tick
    if not process.updates:
        return vitals_of(tick)[0]
    told, trouble = facts_of(tick)
    timeline = timeline_of(tick, told)
    found: list[AnyEvidence] = [] if timeline is None else [timeline]
    found.append(trace_of(stream, process, timeline, told, trouble))
    if tick.samples:
        found.append(lines_of(tick))
    ranks = ranks_of(stream)
    if ranks is not None:
        found.append(ranks)
    if told is not None:
        found += _from_facts(told, tick, timeline)
        found += _from_census(told, tick, timeline, ceilings)
    return (*found, *vitals_of(tick)[0])


def vitals_of(tick: Tick) -> tuple[tuple[AnyEvidence, ...], tuple[str, ...]]:
    """What the looks at the numbers told, each its kind of evidence as it stands; and what could not be read."""
    told = (tick.vitals or {}).get("evidence", {})
    costs = (tick.vitals or {}).get("costs_s", {})
    found: list[AnyEvidence] = []
    troubles: list[str] = []
    for kind, told_of_it in told.items():
        fields = {name: value for name, value in told_of_it.items() if name != "vital"}
        cost_s = costs.get(told_of_it.get("vital"), 0.0)
        try:
            found.append(msgspec.convert({"cost_s": cost_s, **fields, "kind": kind}, AnyEvidence))
        except msgspec.ValidationError as error:
            troubles.append(f"{kind}: {error}")
    return tuple(found), tuple(troubles)


def facts_of(tick: Tick) -> tuple[Told | None, str | None]:
    """The facts in their form, or why they cannot be read."""
    if not tick.facts:
        return None, None
    try:
        return msgspec.convert(tick.facts, Told), None
    except msgspec.ValidationError as error:
        return None, f"facts: {error}"


# time


def watched(tick: Tick) -> int:
    """The updates that were finished in the span whose phases were timed."""
    return tick.updates if tick.watched is None else tick.watched


def phases_of(tick: Tick) -> dict[str, Split]:
    """Seconds per phase and gap of the whole span, without our own."""
    return {
        "rest" if name == NAMELESS else name: Split(running=parts[0], waiting=parts[1], blocked=parts[2])
        for name, parts in tick.phases.items()
        if name != OWN
    }


def timeline_of(tick: Tick, told: Told | None = None) -> StepTimeline | None:
    """Where the time of an update goes; None when no update was timed."""
    updates, phases = watched(tick) - _dropped(told), phases_of(tick)
    if updates <= 0 or not phases:
        return None
    return StepTimeline(
        steps=updates,
        step=sum(phases.values(), Split()).per(updates),
        phases={name: split.per(updates) for name, split in phases.items()},
        own_overhead_s=tick.own_s / updates,
        named_gaps=tuple(sorted({*named_gaps(tick), *stretched_gaps(told)})),
    )


def _dropped(told: Told | None) -> int:
    return told.census.dropped if told is not None and told.census is not None else 0


def named_gaps(tick: Tick) -> tuple[str, ...]:
    """The gaps whose time the sampler puts down to a few lines."""
    by_gap: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for line in tick.lines:
        if line.phase.startswith(GAP):
            by_gap[line.phase][line.file, line.line] += line.samples
    return tuple(sorted(gap for gap, lines in by_gap.items() if _is_named(lines, _looks(tick, gap))))


def stretched_gaps(told: Told | None) -> Iterable[str]:
    """The gaps that were seen to lie between few lines of the user's, four fifths of the times they were looked at."""
    gaps = told.gaps.items() if told is not None else ()
    return (gap for gap, lines in gaps if sum(share for _, _, _, share, _ in lines) >= NAMED_SHARE)


def _looks(tick: Tick, gap: str) -> float:
    """How often the sampler must have looked at a gap, by its time: not all lines are told, only the most frequent."""
    return tick.samples * sum(tick.phases.get(gap, ())) / tick.wall_s if tick.wall_s else 0.0


def _is_named(lines: Counter[tuple[str, int]], looks: float) -> bool:
    named = sum(samples for (file, _), samples in lines.most_common(NAMED_LINES) if file)
    return named >= NAMED_LOOKS and named >= NAMED_SHARE * max(looks, lines.total())


def lines_of(tick: Tick) -> LineCosts:
    """The lines that samples fell on, the costliest first. Looks that met ourselves are no part of the script."""
    samples = tick.samples - sum(line.samples for line in tick.lines if line.phase == OWN)
    lines = (
        LineCost(
            where=Place(file=line.file, line=line.line),
            function=line.function,
            phase=line.phase,
            samples=line.samples,
            share=line.samples / samples,
            framework=line.framework or "",
        )
        for line in tick.lines
        if line.file and line.phase != OWN
    )
    return LineCosts(
        lines=tuple(sorted(lines, key=lambda line: -line.samples)),
        samples=samples,
        hz=tick.samples / tick.wall_s if tick.wall_s else 0.0,
    )


# the script


def trace_of(
    stream: Stream, process: Process, timeline: StepTimeline | None, told: Told | None, trouble: str | None
) -> ScriptTrace:
    """How it was watched."""
    tick = process.tick
    assert tick is not None
    points = process.patches.points if process.patches is not None else {}
    return ScriptTrace(
        attached="sitecustomize",
        processes=sum(each.updates > 0 for each in stream.processes),
        updates=process.updates,
        counted_by=tick.counted_by,
        cycle=tick.cycle,
        events=tuple(sorted(tick.events.items(), key=lambda item: -item[1])),
        optimizers=tuple(
            OptimizerUse(
                index=one.index,
                optimizer=one.kind,
                steps=one.steps,
                skipped=one.skipped,
                settings={name: str(value) for name, value in one.settings.items()},
            )
            for one in tick.optimizers
        ),
        span_s=tick.wall_s,
        own_s=tick.own_s,
        unattributed=1 - timeline.explained if timeline is not None else 1.0,
        watched=watched(tick),
        burst=(tick.burst.watched, tick.burst.of) if tick.burst is not None else None,
        unfired=tuple(f"{name}: {point.why}" for name, point in points.items() if not point.ok),
        troubles=(*_troubles(stream, tick, trouble), *vitals_of(tick)[1]),
        stopped=process.stopped.reason if process.stopped is not None else "",
        checksum=tick.checksum,
        threads=tick.threads,
        gaps=_stretches(told) if told is not None else {},
        places=_places(told) if told is not None else {},
        cost_s=tick.own_s,
    )


def _stretches(told: Told) -> dict[str, tuple[Stretch, ...]]:
    return {
        gap: tuple(
            Stretch(file=file, first=first, last=last, share=share, framework=framework)
            for file, first, last, share, framework in lines
        )
        for gap, lines in told.gaps.items()
        if lines
    }


def _places(told: Told) -> dict[str, tuple[Place, ...]]:
    """Where a patch would take hold, by what was seen there."""
    called = {kind: tuple(Place(file=file, line=line) for file, line in lines) for kind, lines in told.places.items()}
    named = {
        kind: tuple(Place(file=file, line=line, module=name) for name, file, line in made)
        for kind, made in (("modules", told.modules), ("weights", told.weights)) if made
    }  # fmt: skip
    return {"loaders": _constructed(told.loaders), **called, **named}


def _constructed(loaders: Iterable[LoaderTold]) -> tuple[Place, ...]:
    """The lines that construct loaders which training reads, each once."""
    lines = dict.fromkeys((one.file, one.line) for one in loaders if one.file and _trains(one))
    return tuple(Place(file=file, line=line) for file, line in lines)


def _troubles(stream: Stream, tick: Tick, trouble: str | None) -> Iterable[str]:
    yield from (f"{one.where}: {one.says}" for one in stream.troubles)
    yield from (f"{one.get('where')}: {one.get('says')}" for one in tick.troubles)
    if trouble is not None:
        yield trouble


# facts


def _from_facts(told: Told, tick: Tick, timeline: StepTimeline | None) -> Iterable[AnyEvidence]:
    updates = watched(tick)
    span = tick.wall_s - tick.own_s
    if told.loaders:
        yield LoaderUse(loaders=tuple(_loaders(told.loaders)), span_s=span)
    yield _evaluation(told.evaluation, timeline, updates)
    yield _parameters(told, tick)
    yield _order(told, tick)
    yield Chores(chores=tuple(_chores(told, span)), updates=updates)
    if timeline is not None:
        yield _syncs(told.syncs, timeline)


def _from_census(
    told: Told, tick: Tick, timeline: StepTimeline | None, ceilings: Ceilings | None
) -> Iterable[AnyEvidence]:
    census = told.census
    if census is None or timeline is None:
        return
    if census.threads is not None:
        yield from _threads(census.threads, told, tick, timeline)
    if census.counted is None:
        return
    work_s = sum(timeline.phases[name].own for name in COUNTED if name in timeline.phases)
    # What could not be counted is missing from every sum.
    if work_s and census.counted.dispatches and not census.counted.uncounted:
        yield _operators(census.counted, work_s, census.cost_s)
        if census.counted.foreign_s <= FOREIGN * census.counted.operator_s:
            yield _work(census.counted, work_s, ceilings)
    yield _memory(census.counted.memory)


def _operators(counted: CountedTold, work_s: float, cost_s: float) -> OpTable:
    """Operators of the update that was counted, and as Python's part what a usual update takes longer than they did.

    A call takes longer while it is counted. Most of that is taken off aboard, so what is said of Python is rather too
    little. And it is no more than what lay outside of operators in the very update that was counted: where updates differ,
    as they do while threads spin for a core, the rest is their difference.
    """
    shrunk = min(1.0, work_s / counted.operator_s) if counted.operator_s else 1.0
    return OpTable(
        ops=tuple(Op(name=name, calls=calls, seconds=shrunk * seconds) for name, calls, seconds in counted.ops),
        dispatches=counted.dispatches,
        operator_s=shrunk * counted.operator_s,
        python_s=max(0.0, min(work_s - counted.operator_s, counted.outside_s)),
        cost_s=cost_s,
    )


def _work(counted: CountedTold, work_s: float, ceilings: Ceilings | None) -> LayerTable:
    """Operations and bytes of a whole update; nobody aboard looks at layers."""
    dtype = counted.dtype or "float32"
    peak = (ceilings.matmul.get(dtype) or ceilings.matmul.get("float32", 0.0)) if ceilings is not None else 0.0
    return LayerTable(
        layers=(),
        forward_flops=counted.forward_flops,
        step_flops=counted.flops,
        step_bytes=counted.bytes,
        dtype=dtype,
        ridge=peak / ceilings.bandwidth if ceilings is not None and ceilings.bandwidth else 0.0,
        compute_seconds=work_s,
    )


def _memory(told: MemoryTold) -> MemoryAccount:
    """The parts are tensors, the peak is the process's: Python, libraries and data are in it too, and in no part."""
    return MemoryAccount(
        parameters=told.parameters,
        buffers=told.buffers,
        gradients=told.gradients,
        optimizer_state=told.optimizer_state,
        activations=told.activations,
        workspace=0,
        batch=0,
        peak=told.peak,
        capacity=told.capacity,
        available=told.available,
    )


def _threads(told: ThreadsTold, facts: Told, tick: Tick, timeline: StepTimeline) -> Iterable[ThreadUse]:
    """Nothing where the system does not say what others use: then nobody can say whose fault waiting is."""
    if told.others_share is None or not tick.threads:
        return
    workers = max((one.workers for one in facts.loaders if _trains(one)), default=0)
    yield ThreadUse(
        torch_threads=tick.threads,
        interop_threads=told.interop,
        cores=told.cores,
        workers=workers,
        worker_threads=1 if workers else 0,  # torch gives each loader worker one
        waiting_share=timeline.step.waiting / timeline.step.wall if timeline.step.wall else 0.0,
        others_share=told.others_share,
    )


def _loaders(told: Iterable[LoaderTold]) -> Iterable[Loader]:
    """One for each line that constructs loaders of one use; what no line was seen to construct stays by itself."""
    by_line: dict[Any, list[LoaderTold]] = {}
    for number, one in enumerate(told):
        key = (one.file, one.line, _trains(one)) if one.file else number
        by_line.setdefault(key, []).append(one)
    return (_loader(same) for same in by_line.values())


def _loader(same: list[LoaderTold]) -> Loader:
    last = same[-1]
    starts = [one.first_batch_s for one in same if one.first_batch_s is not None]
    return Loader(
        where=_place(last.file, last.line),
        dataset=last.dataset,
        trains=_trains(last),
        iterable=last.iterable,
        batch_size=last.batch_size,
        batches_per_pass=last.length,
        sampler=last.sampler,
        ordered=last.sampler == "SequentialSampler",
        own_order=last.own_order,
        workers=last.workers,
        pinned=last.pin_memory,
        persistent=last.persistent,
        built=len(same),
        passes=sum(one.iterations_started for one in same),
        batches=sum(one.batches for one in same),
        build_s=median(one.build_s for one in same),
        start_s=median(starts) if starts else 0.0,
        sequence=last.sequence,
        # Each pass begins anew: one that begins with mixed batches is not sorted.
        labels_vary=_any(one.labels_vary for one in same),
    )


def _trains(one: LoaderTold) -> bool:
    return one.used_for in ("training", "both")


def _any(answers: Iterable[bool | None]) -> bool | None:
    known = [answer for answer in answers if answer is not None]
    return any(known) if known else None


def _evaluation(told: EvaluationTold, timeline: StepTimeline | None, updates: int) -> EvaluationUse:
    graphs = told.with_gradients
    return EvaluationUse(
        updates=updates,
        forwards=told.forwards,
        own_forwards=told.own_forwards,
        rounds=told.own_rounds,
        seconds=_seconds(timeline, "evaluation"),
        training_s=_seconds(timeline, *WORK),
        span_s=timeline.step.own * timeline.steps if timeline is not None else 0.0,
        with_gradients=graphs.count if graphs is not None else 0,
        gradient_s=graphs.seconds if graphs is not None else 0.0,
        where=_place(graphs.file, graphs.line) if graphs is not None else _place(told.file, told.line),
    )


def _seconds(timeline: StepTimeline | None, *phases: str) -> float:
    """Seconds of these phases in the whole span, without what strangers took."""
    if timeline is None:
        return 0.0
    return sum((timeline.phases[name].own for name in phases if name in timeline.phases), 0.0) * timeline.steps


def _parameters(told: Told, tick: Tick) -> ParameterUse:
    facts = told.parameters
    heard = facts.ran_and_never is not None
    return ParameterUse(
        updates=tick.updates,
        parameters=facts.total,
        # Where somebody listened which modules run, those that rest are no part of the training.
        unreached=facts.ran_and_never or () if heard else facts.never,
        unreached_count=facts.ran_and_never_count or 0 if heard else facts.never_count,
        ran=True if heard else None,
        homeless=facts.in_no_optimizer,
        unseen=told.direct_forward_calls,
    )


def _order(told: Told, tick: Tick) -> UpdateOrder:
    order = told.order
    clip = order.clip_before_unscale
    clips = {words: count for words, count in tick.events.items() if "clip" in names_in(words)}
    return UpdateOrder(
        updates=tick.updates,
        clips=sum(clips.values()),
        # That there was a scale to take back is known aboard; in how many updates it was late stands in their events.
        scaled_clips=sum(count for words, count in clips.items() if _clips_first(words)) if clip else 0,
        clip_where=_place(*clip) if clip else None,
        scaler_steps=sum(one.steps + one.skipped for one in tick.optimizers) if told.scaler else 0,
        skipped=order.skipped_updates,
        skipped_late=order.skipped_late,
        never_cleared=order.gradients_never_cleared,
    )


def names_in(words: str) -> list[str]:
    """The calls of an event string, repeats once.

    >>> names_in("data fwd*3 bwd clip step0")
    ['data', 'fwd', 'bwd', 'clip', 'step0']
    """
    return [word.partition("*")[0] for word in words.split()]


def _clips_first(words: str) -> bool:
    names = names_in(words)
    return "unscale" not in names or names.index("clip") < names.index("unscale")


def _chores(told: Told, span: float) -> Iterable[Chore]:
    for what, chores in (("save", told.saves), ("log", told.logs)):
        for one in chores:
            yield Chore(
                what=what,
                where=_place(one.file, one.line),
                count=one.count,
                seconds=one.seconds,
                share=one.seconds / span if span else 0.0,
            )


def _syncs(told: Iterable[SyncTold], timeline: StepTimeline) -> SyncSites:
    """Reads of an update. Those of a host's own memory wait for nothing, and their call is too short to be timed."""
    sites = (
        SyncSite(where=Place(file=one.file, line=one.line), call=_call(one.call), per_step=one.per_update)
        for one in told
        if one.file and one.phase not in BESIDE
    )
    sync = timeline.phases.get("sync", Split())
    return SyncSites(sites=tuple(sorted(sites, key=lambda site: -site.per_step)), seconds_per_step=sync.own)


def _call(name: str) -> str:
    """How a person writes it.

    >>> _call("item"), _call("__bool__")
    ('.item()', 'bool(tensor)')
    """
    return f"{name.strip('_')}(tensor)" if name.startswith("__") else f".{name}()"


def _place(file: str, line: int) -> Place | None:
    return Place(file=file, line=line) if file else None
