"""The finalists proven: parity and accuracy one after the other, then all of them and the module in the same bursts, over fresh spawns."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from statistics import median

from msgspec.structs import replace

from netdyno.errors import ArmError
from netdyno.measure import energy, host
from netdyno.measure.latency import Burst
from netdyno.records.deployment import Candidate, Running
from netdyno.records.trial import Guard, Parity
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._process import Process
from netdyno.shipping import accuracy, parity, race
from netdyno.shipping.journey import EAGER, Journey
from netdyno.verdicts import shipping as verdicts
from netdyno.verdicts.judge import judge

# Two equal processes differ by some per cent: the spawn is the unit of replication.
SPAWNS, PAIRS = 3, 5
THREAD_PAIRS = 6
# For P99 a thousand calls are asked for (ledger A-030); slow models stop at this many seconds.
CALLS, CALLS_S = 1200, 20.0
OFFLINE = (1, 8, 16)


def checked(journey: Journey, candidate: Candidate) -> Candidate:
    """The parity ladder, the accuracy guard, and the offline rate. Raises ArmError when its process fails."""
    serving = replace(candidate.running, batches=journey.plan.batches)
    with journey.process(candidate.change, serving, origin=candidate.origin) as process:
        process.hold(journey.held)
        standard = journey.standard(candidate)
        rungs = parity.ladder(standard, process.run, precision=candidate.precision, sizes=journey.plan.batches)
        candidate = replace(candidate, parity=rungs)
        broken = next((rung for rung in rungs if rung.holds is False), None)
        if broken is not None:
            return replace(candidate, failed=f"parity: {broken.says}")
        limit = verdicts.drop_constraint(journey.plan).limit
        found = accuracy.guard(journey.subject, process.run, limit=limit, level=journey.plan.level)
        offline = max(_offline(journey, process))
    return replace(candidate, accuracy=found, offline_rate=offline, stage="checked")


def _offline(journey: Journey, process: Process) -> Iterator[float]:
    for rows in sorted({*OFFLINE, *journey.plan.batches}):
        yield rows / process.burst(rows, 0.4, least=3).own


def acceptable(candidate: Candidate) -> bool | None:
    """Whether its answers may be shipped; None where it cannot be told."""
    if candidate.failed is not None or candidate.stage not in ("checked", "measured"):
        return False
    if candidate.accuracy is not None:
        return {"holds": True, "broken": False, "cannot tell": None}[candidate.accuracy.decision]
    return True if candidate.exact else None


def spread_out(journey: Journey, candidate: Candidate) -> Candidate:
    """On the thread count that answers soonest, one thread against each other; also whether waiting threads should sleep.

    Pairs count only while strangers leave the cores alone. Where they do not, it stays with what is known, and says so.
    """
    for running in _others(journey, candidate):
        try:
            with (
                journey.process(candidate.change, candidate.running, origin=candidate.origin) as control_side,
                journey.process(candidate.change, running, origin=candidate.origin) as side,
            ):
                control_side.hold(journey.held)
                side.hold(journey.held)
                pairs = race.paired(
                    control_side,
                    side,
                    rows=journey.plan.rows,
                    pairs=THREAD_PAIRS,
                    chance=journey.chance,
                    clean=race.CLEAN,
                )
        except (race.Busy, ArmError) as error:
            why = error.says if isinstance(error, ArmError) else str(error)
            return replace(candidate, says=(*candidate.says, f"{running.threads} threads could not be compared: {why}"))
        if race.speedup(pairs, journey.plan.level).low > 1.0:
            candidate = replace(candidate, running=running)
    return candidate


def _others(journey: Journey, candidate: Candidate) -> Iterator[Running]:
    """Other thread counts, and sleeping instead of spinning where the runtime has that and the objective may want it."""
    for threads in journey.plan.threads or sorted({max(1, host.cores() // 2), host.cores()}):
        if threads != candidate.running.threads:
            yield replace(candidate.running, threads=threads)
    if getattr(runtimes.catalogue()[candidate.change.id], "spins", False) and journey.plan.minimise in ("p99", "cpu"):
        yield replace(candidate.running, spinning=not candidate.running.spinning)


def measured(journey: Journey, finalists: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """All finalists and the module in the same turns, over fresh spawns, then calls enough for the percentiles of each.

    On several threads only pairs count in which strangers left the cores alone; a machine that is never calm is measured on one thread,
    and that is said.
    """
    try:
        return _together(journey, finalists, journey.eager)
    except race.Busy as busy:
        alone = [
            replace(one, running=replace(one.running, threads=1), says=(*one.says, f"measured on one thread: {busy}"))
            for one in finalists
        ]
        return _together(journey, alone, journey.one_thread())


class Taken:
    """What was measured of one finalist over all spawns."""

    def __init__(self) -> None:
        self.parts: list[race.Paired] = []
        self.calls: list[Burst] = []
        self.load_s: list[float] = []
        self.first_s: list[float] = []
        self.memory: list[int] = []
        self.joules: list[float] = []


def _together(journey: Journey, finalists: Sequence[Candidate], eager: Running) -> tuple[Candidate, ...]:
    many = max(eager.threads, *(one.running.threads for one in finalists)) > 1
    clean = race.CLEAN if many else 1.0
    taken = {at: Taken() for at in range(len(finalists))}
    failed: dict[int, ArmError] = {}
    for spawn in range(SPAWNS):
        with ExitStack() as stack:
            control_side = stack.enter_context(journey.process(EAGER, eager, fresh=True))
            control_side.hold(journey.held)
            for at, candidate in enumerate(finalists):
                if at in failed:
                    continue
                journey.says(f"measuring {candidate.label}, spawn {spawn + 1} of {SPAWNS}")
                try:
                    _one_spawn(journey, candidate, control_side, taken[at], spawn=spawn, clean=clean)
                except ArmError as error:
                    failed[at] = error
    return tuple(
        replace(candidate, failed=failed[at].says, last_words=failed[at].last_words)
        if at in failed
        else _told(journey, candidate, taken[at])
        for at, candidate in enumerate(finalists)
    )


def _one_spawn(
    journey: Journey, candidate: Candidate, control_side: Process, taken: Taken, *, spawn: int, clean: float
) -> None:
    rows = journey.plan.rows
    with journey.process(candidate.change, candidate.running, origin=candidate.origin, fresh=True) as process:
        taken.first_s.append(process.hold(journey.held))
        taken.load_s.append(process.load_s)
        taken.parts.append(
            race.paired(control_side, process, rows=rows, pairs=PAIRS, chance=journey.chance, spawn=spawn, clean=clean)
        )
        with energy.spending() as spent:
            calls = process.burst(rows, CALLS_S / SPAWNS, least=50, most=-(-CALLS // SPAWNS))
        taken.calls.append(calls)
        if spent.joules is not None:
            taken.joules.append(spent.joules / len(calls.seconds))
        taken.memory.append(process.memory())


def _told(journey: Journey, candidate: Candidate, taken: Taken) -> Candidate:
    plan = journey.plan
    pairs = race.joined(taken.parts)
    tried = race.trial(candidate.change, pairs, lower_precision=not candidate.exact)
    tried = replace(tried, parity=_parity(candidate), guards=_guards(candidate))
    verdict = judge(
        tried,
        number=0,
        least_gain=plan.least_gain,
        error=1 - plan.level,
        bottleneck=f"an answer takes {1e3 * median(pairs.control):.3g} ms in eager PyTorch",
        undone=True,  # the module itself is untouched: what is served is a copy
    )
    seconds = [each for one in taken.calls for each in one.seconds]
    candidate = replace(
        candidate,
        stage="measured",
        trial=tried,
        verdict=replace(verdict, reasons=tuple(says.replace("of a step", "of an answer") for says in verdict.reasons)),
        speedup=race.speedup(pairs, plan.level),
        latency=(
            journey.latency(
                seconds,
                cpu=median(one.cpu for one in taken.calls),
                foreign=max(one.foreign for one in taken.calls),
            ),
        ),
        load_s=median(taken.load_s),
        first_s=median(taken.first_s),
        memory_bytes=max(taken.memory),
        energy_j=median(taken.joules) if taken.joules else None,
    )
    return replace(candidate, met=verdicts.judged(candidate, plan))


def _parity(candidate: Candidate) -> tuple[Parity, ...]:
    if candidate.accuracy is not None:
        found = candidate.accuracy
        return (Parity(output="decisions", worst=max(0.0, found.drop.high), allowed=found.limit, measure="metric"),)
    worst = max((rung.worst for rung in candidate.parity if rung.worst is not None), default=0.0)
    return (Parity(output="answers", worst=worst, allowed=parity.ALLOWED[candidate.precision], measure="rel"),)


def _guards(candidate: Candidate) -> tuple[Guard, ...]:
    if candidate.accuracy is None:
        return ()
    holds = {"holds": True, "broken": False, "cannot tell": None}[candidate.accuracy.decision]
    return (Guard(name="accuracy", holds=holds, says=candidate.accuracy.says),)
