"""Every way that this machine has, the cheapest to build first: built, compared with the module, and timed in a few pairs of bursts."""

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec.structs import replace

from netdyno.records.deployment import Candidate
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes.eager import Eager
from netdyno.shipping import parity, race
from netdyno.shipping.journey import Journey

SCREEN_PAIRS, SCREEN_BURST_S = 3, 0.15
# In a race: whoever was within this of the best when screened. A screening of three pairs is out by a tenth at most.
IN_REACH = 1.5
# An export dearer than this many seconds, for a small CNN on one core, is dear: it comes last, and only with a chance.
DEAR_S = 30.0
# What a precision brings is known when so many runtimes have it.
GAINS = 2
# Quantisers run the whole calibration set, so int8 is several times as dear to build.
INT8_PRICE = 3.0


def queue(journey: Journey) -> Iterator[Candidate]:
    """All candidates, the cheapest to build first; what makes no sense or cannot run here is among them and says why."""
    found = sorted(_all(journey), key=lambda item: item[0])
    journey.prices |= {candidate.change.label: price for price, candidate in found}
    yield from (candidate for _, candidate in found)
    for broken in runtimes.broken():
        yield Candidate(change=Change(id=broken.id), skipped=f"the plug-in cannot be used: {broken.says}")


def _all(journey: Journey) -> Iterator[tuple[float, Candidate]]:
    plan, traits = journey.plan, journey.subject.traits(journey.plan.batches)
    for name, kind in runtimes.catalogue().items():
        if name in plan.skip or (plan.only and name not in plan.only):
            continue
        lacks = kind().unavailable()
        if lacks is not None:
            yield kind.price, Candidate(change=Change(id=name), skipped=lacks)
            continue
        for variant in kind.variants(traits):
            if variant == Eager():
                continue  # it is the control
            price = kind.price * (INT8_PRICE if variant.precision == "int8" else 1.0)
            change = runtimes.written(variant)
            yield price, Candidate(change=change, precision=variant.precision, skipped=variant.refuses(traits))


def screened(journey: Journey, candidate: Candidate) -> Candidate:
    """One candidate, built, compared and timed on one thread. Raises ArmError with the reason when it cannot be."""
    running = journey.one_thread()
    built = journey.built(candidate.change, candidate.origin)
    candidate = replace(candidate, built=built, running=running)
    with journey.process(candidate.change, running, origin=candidate.origin) as process:
        first_s = process.hold(journey.held)
        # Only what is plainly broken is left out before it is timed: hence the bounds of int8.
        rung = parity.compared(
            "screened",
            journey.expected(candidate),
            process.run(journey.held),
            precision="int8",
            batch=len(journey.held[0]),
        )
        if rung.holds is False:
            return replace(candidate, parity=(rung,), failed=rung.says)
        pairs = race.paired(
            journey.control(),
            process,
            rows=journey.plan.rows,
            pairs=SCREEN_PAIRS,
            chance=journey.chance,
            burst_s=SCREEN_BURST_S,
        )
        return replace(
            candidate,
            parity=(rung,),
            trial=race.trial(candidate.change, pairs, lower_precision=not candidate.exact),
            speedup=race.speedup(pairs, journey.plan.level),
            load_s=process.load_s,
            first_s=first_s,
            memory_bytes=process.memory(),
            latency=(journey.latency(pairs.seconds, cpu=pairs.cpu, foreign=pairs.foreign),),
        )


def not_worth_it(journey: Journey, seen: Sequence[Candidate], candidate: Candidate) -> str | None:
    """Why a candidate is left out after what was measured, or None. An exhaustive search leaves nothing out."""
    if journey.plan.exhaustive:
        return None
    alive = [one for one in seen if one.speedup is not None and one.failed is None and one.side == candidate.side]
    bolder = next((one for one in alive if _gentler(one) == candidate.change), None)
    if bolder is not None:
        return f"no quicker than {bolder.label}: it waits until that loses too much"
    if candidate.precision == "int8":
        lost = int8_lost(alive)
        if lost is not None:
            return lost
    price = journey.prices.get(candidate.change.label, 0.0)
    if price >= DEAR_S:
        behind = _kin_behind(alive, candidate) or out_of_reach(alive, candidate)
        if behind is not None:
            return behind
    needs = price * _pace(journey, seen)
    if needs > 0.5 * journey.left():
        return f"it takes about {needs:.0f} s, and {max(0.0, journey.left()):.0f} s of the budget are left"
    return None


def _gentler(candidate: Candidate) -> Change | None:
    found = runtimes.gentler(runtimes.read(candidate.change))
    return runtimes.written(found) if found is not None else None


def _kin_behind(alive: Sequence[Candidate], candidate: Candidate) -> str | None:
    """A runtime with the same kernels that is far behind the best: what differs is only how they are called."""
    kin = getattr(runtimes.catalogue()[candidate.change.id], "kin", None)
    same = max(
        (middle(one) for one in alive if one.change.id == kin and one.precision == candidate.precision), default=0.0
    )
    best = max(map(middle, alive), default=0.0)
    if same and same * IN_REACH < best:
        return f"it runs the same kernels as {kin}, which was {best / same:.1f} times behind the best"
    return None


def out_of_reach(alive: Sequence[Candidate], candidate: Candidate) -> str | None:
    """Its own fp32, or its kin's, is so far behind the best that it would need a larger gain than its precision brought any runtime here."""
    own = {candidate.change.id, getattr(runtimes.catalogue()[candidate.change.id], "kin", None)}
    plain = {
        one.change.id: max(
            middle(other) for other in alive if (other.change.id, other.precision) == (one.change.id, "fp32")
        )
        for one in alive
        if one.precision == "fp32"
    }
    gains = {
        one.change.id: middle(one) / plain[one.change.id]
        for one in sorted(alive, key=middle)
        if one.precision == candidate.precision != "fp32" and one.change.id in plain
    }
    base = max((plain[name] for name in own if name in plain), default=0.0)
    best = max(map(middle, alive), default=0.0)
    if not base or len(gains) < GAINS or base * max(gains.values()) >= best:
        return None
    most = max(gains, key=lambda name: gains[name])
    return (
        f"its fp32 is {best / base:.1f} times behind the best, and {candidate.precision} made none more than "
        f"{gains[most]:.1f} times as fast here ({most})"
    )


def int8_lost(alive: Sequence[Candidate]) -> str | None:
    """Two runtimes in which int8 was surely slower than the same runtime without: it does not pay here."""
    losses = {}
    for one in alive:
        if one.precision != "int8" or one.speedup is None:
            continue
        others = [other for other in alive if other.change.id == one.change.id and other.precision != "int8"]
        best = max(others, key=middle, default=None)
        if best is not None and middle(best) > 1.1 * middle(one):
            losses[one.change.id] = (
                f"{one.change.id} {middle(one) / middle(best):.2f} times as fast as its own {best.precision}"
            )
        elif best is not None:
            return None
    return f"int8 does not pay here: {', '.join(losses.values())}" if len(losses) > 1 else None


def _pace(journey: Journey, seen: Sequence[Candidate]) -> float:
    """How many times longer exports take here than their prices say, from those that were made."""
    ratios = [
        one.built.seconds / journey.prices[one.change.label]
        for one in seen
        if one.built is not None and journey.prices.get(one.change.label)
    ]
    return max(0.5, median(ratios)) if ratios else 1.0


def middle(candidate: Candidate) -> float:
    """How many times as fast as the module it was, at last look; 0 where it was not timed."""
    return candidate.speedup.middle if candidate.speedup is not None else 0.0
