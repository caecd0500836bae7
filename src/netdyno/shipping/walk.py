"""The walk of `netdyno deploy`, as a list of steps: gate, control, screen, resize, race, check, measure, choose, pack. Read this first.

Each step takes what is known, adds its own part, and it is saved before the next begins. Cheap exports are tried first; what is
dear is tried only where what has been measured leaves it a chance. Every export is made in a fresh process, and loaded in another.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, product
from pathlib import Path
from statistics import median

from msgspec.structs import replace

from netdyno import __version__
from netdyno.errors import ArmError
from netdyno.measure import energy
from netdyno.measure.environment import describe as describe_environment
from netdyno.progress import Listener, silent
from netdyno.records.deployment import Candidate, Shipment, ShipPlan
from netdyno.runtimes._process import Process
from netdyno.shipping import fallback, gate, packing, race, resolution, roofline, sensitivity
from netdyno.shipping.journey import EAGER, Journey, set_out
from netdyno.shipping.proving import acceptable, checked, measured, spread_out
from netdyno.shipping.screening import IN_REACH, middle, not_worth_it, queue, screened
from netdyno.shipping.subject import opened
from netdyno.store import Store
from netdyno.store.documents import Documents
from netdyno.verdicts import shipping as verdicts

MOST_RACERS = 8
RACE_ROUNDS = 12
FINALISTS = 3
# Seconds over the leader's in the race, beyond which the one behind is not measured to the end.
CHANCE = 1.25

Step = Callable[[Journey, Shipment], Shipment]


def deploy(
    reference: str,
    plan: ShipPlan,
    *,
    shelf: Documents,
    package: Path | None = None,
    listener: Listener = silent,
    resume: Shipment | None = None,
    steps: "tuple[Step, ...] | None" = None,
    command: str = "",
) -> Shipment:
    """Find, prove and package the best way to run a release on this machine. Raises NetdynoError for what the user can put right."""
    subject = opened(reference)
    plan = resume.plan if resume is not None else plan
    shipment = resume or Shipment(
        id=shelf.new_id(Shipment, subject.release.name),
        made_by=f"netdyno {__version__}",
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        target=reference,
        model_hash=subject.hash,
        plan=plan,
        signature=subject.signature,
    )
    shelf.save(shipment)
    journey = set_out(subject, plan, shelf=shelf, package=package, listener=listener, clock=time.monotonic)
    try:
        return _through(steps or STEPS, journey, shipment)
    except BaseException as error:
        error.netdyno_record = shelf.path(Shipment, shipment.id)  # type: ignore[attr-defined]
        raise
    finally:
        journey.close()


def _through(steps: tuple[Step, ...], journey: Journey, shipment: Shipment) -> Shipment:
    spent = shipment.wall_s
    for step in steps:
        name = step.__name__.removesuffix("_step")
        if name in shipment.done or (stopped(shipment) and name != "close"):
            continue
        shipment = step(journey, shipment)
        wall = spent + journey.clock() - journey.began
        shipment = replace(shipment, done=(*shipment.done, name), wall_s=wall)
        journey.shelf.save(shipment)
    return shipment


def stopped(shipment: Shipment) -> bool:
    """True when the gate forbids every export."""
    return gate.stops(shipment.gate)


def describe(journey: Journey, shipment: Shipment) -> Shipment:
    """The machine, and what can be read of its energy."""
    journey.says("looking at the machine")
    return replace(shipment, environment=describe_environment("cpu", seed=journey.plan.seed), energy=energy.said())


def pass_gate(journey: Journey, shipment: Shipment) -> Shipment:
    """Everything that must hold before anything is exported."""
    checks = gate.gate(
        journey.subject.release,
        allow=journey.plan.allow,
        looking=lambda name: journey.says(f"at the gate: {name}"),
    )
    return replace(shipment, gate=checks, coverage=sensitivity.covered(journey.subject.release))


def control(journey: Journey, shipment: Shipment) -> Shipment:
    """The module as it is, in eager PyTorch, on the threads that suit it best: what everything else is compared with."""
    journey.says("the module as it is")
    process = journey.control()
    first_s = process.hold(journey.held)
    taken = process.burst(journey.plan.rows, 1.0, least=5)
    told = Candidate(
        change=EAGER,
        running=journey.one_thread(),
        stage="measured",
        built=journey.built(EAGER),
        latency=(journey.latency(taken.seconds, cpu=taken.cpu, foreign=taken.foreign),),
        load_s=process.load_s,
        first_s=first_s,
        memory_bytes=process.memory(),
    )
    told = spread_out(journey, told)
    journey.eager = told.running
    return replace(shipment, control=told)


def screen(journey: Journey, shipment: Shipment) -> Shipment:
    """Every way that this machine has; what is left out says why."""
    known = {one.label for one in shipment.candidates}
    for waiting in queue(journey):
        if waiting.label not in known:
            shipment = _seen(journey, shipment, waiting)
    return shipment


def resize(journey: Journey, shipment: Shipment) -> Shipment:
    """Smaller images, where the release allows them: their accuracy first, then the quickest ways so far at those that keep it."""
    if not shipment.resolutions:
        shipment = replace(shipment, resolutions=tuple(resolution.swept(journey)))
        journey.shelf.save(shipment)
    known = {one.label for one in shipment.candidates}
    for waiting in tuple(resolution.proposals(journey, shipment.candidates, shipment.resolutions)):
        if waiting.label in known:
            continue
        shipment = _seen(journey, shipment, waiting)
    return shipment


def _seen(journey: Journey, shipment: Shipment, waiting: Candidate) -> Shipment:
    """With one more way, screened or skipped with a reason."""
    skipped = waiting.skipped or _uncovered(shipment, waiting)
    skipped = skipped or not_worth_it(journey, shipment.candidates, waiting)
    if skipped is not None:
        seen = replace(waiting, skipped=skipped)
    else:
        journey.says(f"trying {waiting.label}")
        seen = journey.tried(waiting, lambda one: screened(journey, one))
    shipment = replace(shipment, candidates=(*shipment.candidates, seen))
    journey.shelf.save(shipment)
    return shipment


def _uncovered(shipment: Shipment, candidate: Candidate) -> str | None:
    """Ranges that were taken from calibration cut off what production sends beyond them: int8 is not tried then."""
    missed = [check for check in shipment.coverage if check.ok is False and not check.warning]
    return missed[0].says if missed and candidate.precision == "int8" else None


def race_step(journey: Journey, shipment: Shipment) -> Shipment:
    """The best of the screening in turns, one thread each; who is surely behind leaves."""
    chosen = _racers(shipment)
    if len(chosen) < 2:
        return shipment
    standings = race.race(
        [race.Runner(str(at), _starter(journey, shipment.candidates[at])) for at in chosen],
        rows=journey.plan.rows,
        rounds=RACE_ROUNDS,
        keep=FINALISTS,
        chance=journey.chance,
        error=1 - journey.plan.level,
        went=lambda done, left: journey.says(f"race of {left}, round {done}"),
    )
    raced = list(shipment.candidates)
    for place, standing in enumerate(standings):
        if standing.failed is None and standing.own:
            behind = median(standing.own) / median(standings[0].own)
            raced[int(standing.name)] = replace(
                raced[int(standing.name)], stage="raced", place=place + 1, behind=behind
            )
    return replace(shipment, candidates=tuple(raced))


def _racers(shipment: Shipment) -> list[int]:
    """Who runs: whoever was near the best when screened, and the quickest of each precision, also on images as they come."""
    ranked = _by_screening(shipment)
    if not ranked:
        return []
    best = middle(shipment.candidates[ranked[0]])
    chosen = [at for at in ranked if middle(shipment.candidates[at]) * IN_REACH >= best][:MOST_RACERS]
    whole = [at for at in ranked if shipment.candidates[at].side is None]
    for among, precision in product((ranked, whole), verdicts.ORDER):
        first = next((at for at in among if shipment.candidates[at].precision == precision), None)
        if first is not None and first not in chosen:
            chosen.append(first)
    return chosen


def _by_screening(shipment: Shipment) -> list[int]:
    alive = [at for at, one in enumerate(shipment.candidates) if one.speedup is not None and one.failed is None]
    return sorted(alive, key=lambda at: -middle(shipment.candidates[at]))


def _starter(journey: Journey, candidate: Candidate) -> Callable[[], Process]:
    def start() -> Process:
        process = journey.process(candidate.change, journey.one_thread(), origin=candidate.origin)
        with suppress(ArmError):  # it fails again in its first burst, and then it is said
            process.hold(journey.held)
        return process

    return start


def check(journey: Journey, shipment: Shipment) -> Shipment:
    """Parity and accuracy, the quickest first, until enough may be shipped and the rest is too far behind to win.

    One that loses too much is tried again: at larger images, quantised more gently, or with its worst layers kept in float.
    """
    sound: list[Candidate] = []
    for at in _in_order(shipment):
        candidate = shipment.candidates[at]
        if len(sound) >= FINALISTS or (sound and (candidate.behind or 1.0) > CHANCE * (sound[0].behind or 1.0)):
            break
        journey.says(f"checking {candidate.label}")
        found = journey.tried(candidate, lambda one: checked(journey, one))
        shipment = _with(shipment, at, found)
        journey.shelf.save(shipment)
        if acceptable(found):
            sound.append(found)
        elif found.accuracy is not None and not found.exact:
            shipment = _rescued(journey, shipment, found)
    ruined = ruined_by_int8(shipment.candidates)
    return _rescued(journey, shipment, ruined) if ruined is not None else shipment


def ruined_by_int8(candidates: Sequence[Candidate]) -> Candidate | None:
    """Where int8 gave other answers than the module's in every runtime: the one of the quickest of these runtimes, which may be mended.

    One activation that is far larger than all others does that. None where int8 works somewhere, or was tried nowhere.
    """
    int8 = [one for one in candidates if one.precision == "int8" and one.side is None and one.built is not None]
    if not int8 or any(one.failed is None for one in int8):
        return None

    def kin(lost: Candidate) -> float:
        return max((middle(one) for one in candidates if one.change.id == lost.change.id), default=0.0)

    unlike = [one for one in int8 if any(rung.holds is False for rung in one.parity)]
    return max(unlike, key=kin, default=None)


def _rescued(journey: Journey, shipment: Shipment, lost: Candidate) -> Shipment:
    wider = resolution.larger(journey, lost, shipment.resolutions)
    other = resolution.in_other_precision(journey, lost, shipment.candidates, shipment.resolutions)
    for proposal in chain(wider, other, fallback.proposals(journey.standard(lost), lost)):
        shipment, rescue = _tried_again(journey, shipment, proposal)
        if acceptable(rescue):
            return shipment
    if journey.subject.release.train is None or lost.precision != "int8":
        return shipment
    journey.says("training for int8")
    proposal = journey.tried(lost, lambda one: fallback.trained(journey, one))
    if proposal.failed is not None:
        says = f"{lost.label} was trained for int8 in vain: {proposal.failed}"
        return replace(shipment, failures=(*shipment.failures, says))
    return _tried_again(journey, shipment, proposal)[0]


def _tried_again(journey: Journey, shipment: Shipment, proposal: Candidate) -> tuple[Shipment, Candidate]:
    journey.says(f"trying {proposal.label}")
    rescue = journey.tried(proposal, lambda one: screened(journey, one))
    if rescue.failed is None:
        rescue = journey.tried(rescue, lambda one: checked(journey, one))
    waited = [at for at, one in enumerate(shipment.candidates) if one.skipped and one.label == rescue.label]
    if waited:
        shipment = _with(shipment, waited[0], rescue)
    else:
        shipment = replace(shipment, candidates=(*shipment.candidates, rescue))
    journey.shelf.save(shipment)
    return shipment, rescue


def _in_order(shipment: Shipment) -> list[int]:
    """Raced candidates by their place; without a race those that were screened, the quickest first."""
    raced = [at for at, one in enumerate(shipment.candidates) if one.stage == "raced"]
    return sorted(raced, key=lambda at: shipment.candidates[at].place or 0) or _by_screening(shipment)


def measure(journey: Journey, shipment: Shipment) -> Shipment:
    """Those that may be shipped, and those that would be quicker if it could be told: on their best threads, over fresh spawns."""
    chosen = [
        at for at, one in enumerate(shipment.candidates) if one.stage == "checked" and acceptable(one) is not False
    ]
    chosen.sort(key=lambda at: (acceptable(shipment.candidates[at]) is None, -middle(shipment.candidates[at])))
    chosen = chosen[:FINALISTS]
    if not chosen:
        return shipment
    finalists = []
    for at in chosen:
        journey.says(f"threads of {shipment.candidates[at].label}")
        finalists.append(journey.tried(shipment.candidates[at], lambda one: spread_out(journey, one)))
    for at, found in zip(chosen, measured(journey, finalists), strict=True):
        shipment = _with(shipment, at, found)
    return shipment


def choose(journey: Journey, shipment: Shipment) -> Shipment:
    """The winner under the objective, the front, the ladder, and what the roofline leaves."""
    journey.says("choosing")
    candidates = verdicts.front(shipment.candidates, journey.plan)
    choice = verdicts.choose(candidates, journey.plan)
    assert shipment.control is not None
    return replace(
        shipment,
        candidates=candidates,
        winner=choice.winner,
        says=choice.says,
        ladder=verdicts.ladder(shipment.control, candidates),
        roofline=_roofline(journey, shipment, candidates, choice.winner),
    )


def _roofline(journey: Journey, shipment: Shipment, candidates: tuple[Candidate, ...], winner: int | None) -> str:
    chosen = candidates[winner] if winner is not None else None
    if chosen is None or shipment.environment is None or chosen.trial is None:
        return ""
    return roofline.said(
        journey.standard(chosen),
        chosen,
        seconds=median(chosen.trial.treatment.samples),
        rows=journey.plan.rows,
        environment=shipment.environment,
        store=Store(journey.shelf.folder),
    )


def pack(journey: Journey, shipment: Shipment) -> Shipment:
    """The winner as a package."""
    if shipment.winner is None:
        return shipment
    journey.says("packing")
    winner = shipment.candidates[shipment.winner]
    folder = journey.package or Path(f"{journey.subject.release.name}-package")
    inputs = tuple(array[: packing.EXAMPLE_ROWS] for array in journey.held)
    serving = replace(winner.running, batches=journey.plan.batches)
    with journey.process(winner.change, serving, origin=winner.origin) as process:
        answers = process.run(inputs)
    artifact = journey.exports.path(journey.built(winner.change, winner.origin).key)
    written = packing.packed(folder, journey.subject, shipment, artifact=artifact, inputs=inputs, answers=answers)
    return replace(shipment, package=str(written.folder))


def close(_: Journey, shipment: Shipment) -> Shipment:
    """Say that it is finished."""
    return replace(shipment, finished=True)


def _with(shipment: Shipment, at: int, candidate: Candidate) -> Shipment:
    candidates = list(shipment.candidates)
    candidates[at] = candidate
    return replace(shipment, candidates=tuple(candidates))


GATE: tuple[Step, ...] = (describe, pass_gate, close)
STEPS: tuple[Step, ...] = (describe, pass_gate, control, screen, resize, race_step, check, measure, choose, pack, close)
