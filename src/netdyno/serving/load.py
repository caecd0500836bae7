"""Finds the highest rate at which a service still keeps its promise, and says how sure that is."""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.errors import NetdynoError
from netdyno.progress import Event, Listener, silent
from netdyno.records.deployment import Constraint, Met
from netdyno.records.load import Load, LoadPlan, Offered, Probe
from netdyno.records.measured import Interval
from netdyno.serving.offered import BUSY, SHARES, Request, Where, exchange, offered
from netdyno.stats.percentiles import asked, fewest
from netdyno.stats.shares import counted_share
from netdyno.verdicts import slo

# How often a rate at the edge is judged at most; two verdicts alike settle it. A single probe next to the edge is a coin.
JUDGED = 3
# Below one request in two seconds a percentile takes longer than anybody waits.
LEAST_RATE = 0.5
# What a stretch of load shows of a promise beside latency. The rate is the answer of a search and not a part of one probe; the rest
# belongs to `netdyno deploy`.
SEEN = ("memory", "failures")
# A percentile needs its samples with some to spare: Poisson arrivals bring fewer than planned half of the time.
SPARE = 1.1
# A probe that could not tell is repeated this much longer, once.
LONGER = 3.0
WARM_UP_S = 1.0
# This share of all requests beyond what the percentile allows is an overload. Less may be one stall of the machine, which the verdict knows.
HOPELESS = 0.2

GIVEN_UP = "given up: too many were late already"
BARE = {True: "held", False: "broken", None: "cannot tell"}

Offer = Callable[[float, float], Offered]
Clock = Callable[[], float]


class Edge(NamedTuple):
    """What the probes so far say: the highest rate that held, the lowest above it that did not, and whether that one is known to break."""

    held: float | None
    not_held: float | None
    broken: bool


def judged(load: Offered, objective: Sequence[Constraint]) -> Probe:
    """The verdict on one stretch of load. A promise that fails only by the generator's own lateness cannot be told."""
    values: dict[str, float | Interval] = {"failures": counted_share(load.failed, load.due)}
    if load.server_bytes is not None:
        values["memory"] = float(load.server_bytes)
    met = slo.all_met(objective, values=values, samples=load.samples)
    seen = [one for one in met if _seen(one)]
    ok = slo.kept(seen)
    blurred = _blurred(load, objective, seen) if ok is not True or load.given_up else None
    if blurred is not None:
        return Probe(load=load, met=met, ok=None, says=f"cannot tell: {blurred}")
    if load.given_up:
        return Probe(load=load, met=met, ok=False, says=GIVEN_UP)
    return Probe(load=load, met=met, ok=ok, says=BARE[ok])


def _blurred(load: Offered, objective: Sequence[Constraint], met: Sequence[Met]) -> str | None:
    """Why a stretch that was not kept says nothing of the service; None where it does."""
    tightest = min((one.limit for one in objective if slo.share_of(one) is not None), default=None)
    if load.generator_cpu > BUSY:
        return "the generator had no core left"
    if load.lag is not None and tightest is not None and load.lag.seconds > tightest:
        return "the generator itself was later than the promise allows: others had the cores"
    if any(one.ok is False for one in met) and _kept_without_lag(load, met):
        return "it fails by the lateness of the generator alone"
    return None


def _seen(met: Met) -> bool:
    return slo.share_of(met.constraint) is not None or met.constraint.quantity in SEEN


def _kept_without_lag(load: Offered, met: Sequence[Met]) -> bool:
    """Whether every part that is broken would be kept had each request been sent when it was due."""
    bare = [taken - lag for taken, lag in zip(load.samples, load.lags, strict=True)]
    late = [one.constraint for one in met if one.ok is False]
    return all(slo.share_of(one) is not None and slo.met(one, samples=bare).ok for one in late)


def probe_s(rate: float, plan: LoadPlan) -> float:
    """How long a probe takes until its percentile can be judged: at least `probe_s`, at most `most_probe_s`.

    >>> from netdyno.verdicts.slo import parse
    >>> round(probe_s(50, LoadPlan(objective=parse("p99<=15ms"))))
    22
    """
    needs = [asked(share) for one in plan.objective if (share := slo.share_of(one)) is not None]
    # Without a single failure, so many requests show that no more than this share fails.
    needs += [fewest(1 - one.limit, plan.level) for one in plan.objective if one.quantity == "failures" and one.limit]
    samples = max(needs, default=100) * SPARE
    return min(plan.most_probe_s, max(plan.probe_s, samples / rate))


def hopeless(plan: LoadPlan, due: int) -> Callable[[float], bool]:
    """A watch that is told every latency, and says True once the promise is broken however the rest of `due` requests goes."""
    watched = [(one.limit, share) for one in plan.objective if (share := slo.share_of(one)) is not None]
    allowed = [due * (1 - share + HOPELESS) for _, share in watched]
    late = [0] * len(watched)

    def watch(taken: float) -> bool:
        for at, (limit, _) in enumerate(watched):
            late[at] += taken > limit
        return any(count > most for count, most in zip(late, allowed, strict=True))

    return watch


def edge(probes: Sequence[Probe]) -> Edge:
    """Where the service stands, judged by the majority at each rate; a tie does not hold."""
    verdicts = {rate: _majority(probes, rate) for rate in {probe.load.rate for probe in probes}}
    not_held = min((rate for rate, ok in verdicts.items() if ok is not True), default=None)
    held = max((rate for rate, ok in verdicts.items() if ok and (not_held is None or rate < not_held)), default=None)
    return Edge(held, not_held, not_held is not None and verdicts[not_held] is False)


def _majority(probes: Sequence[Probe], rate: float) -> bool | None:
    verdicts = [probe.ok for probe in probes if probe.load.rate == rate]
    held, broken = verdicts.count(True), verdicts.count(False)
    return True if held > broken else False if broken else None


def following(probes: Sequence[Probe], plan: LoadPlan) -> float | None:
    """The rate to try next, None when the edge is known: doubled or halved until it is bracketed, halved on a log scale, then repeated.

    >>> following((), LoadPlan(start=10))
    10
    """
    if not probes:
        return plan.start
    last = probes[-1]
    if last.ok is None and sum(probe.load.rate == last.load.rate for probe in probes) == 1:
        return last.load.rate  # it could not be told: once more, for longer
    held, not_held, _ = edge(probes)
    if not_held is None:
        assert held is not None
        return None if held >= plan.most else min(plan.most, held * 2)
    if held is None:
        lower = not_held / 2
        return lower if lower >= LEAST_RATE else _unsettled(probes, (not_held,))
    if not_held / held > plan.precision:
        return _rounded(math.sqrt(held * not_held), held, not_held)
    return _unsettled(probes, (held, not_held))


def _rounded(rate: float, low: float, high: float) -> float:
    """Three digits, for the eye, where that is still between the two."""
    short = float(f"{rate:.3g}")
    return short if low < short < high else rate


def _unsettled(probes: Sequence[Probe], rates: Sequence[float]) -> float | None:
    """A rate at the edge whose verdict stands on one probe, or on two that differ."""
    for rate in rates:
        verdicts = [probe.ok for probe in probes if probe.load.rate == rate]
        if len(verdicts) < JUDGED and max(verdicts.count(True), verdicts.count(False)) < 2:
            return rate
    return None


def search(
    load: Load,
    offer: Offer,
    *,
    save: Callable[[Load], object] = lambda _: None,
    listener: Listener = silent,
    clock: Clock = time.monotonic,
) -> Load:
    """Go on with a search until the edge is known or the budget is spent, by one probe at least; `save` is called after every one."""
    began, before, plan = clock(), len(load.probes), load.plan
    while (rate := following(load.probes, plan)) is not None:
        spent = load.wall_s + clock() - began
        seconds = _seconds(load.probes, rate, plan, left=plan.budget_s - spent)
        if len(load.probes) > before and spent + seconds > plan.budget_s:
            load = replace(told(load), wall_s=spent)
            save(load)
            return load
        listener(Event(f"offering {rate:.4g} requests per second for {seconds:.0f} s", spent, plan.budget_s))
        load = replace(load, probes=(*load.probes, judged(offer(rate, seconds), plan.objective)))
        save(replace(load, wall_s=load.wall_s + clock() - began))
    load = replace(told(load), finished=True, wall_s=load.wall_s + clock() - began)
    save(load)
    return load


def at_one_rate(load: Load, offer: Offer, *, clock: Clock = time.monotonic) -> Load:
    """Offer the plan's one rate, and judge it."""
    began, plan = clock(), load.plan
    assert plan.rate is not None
    probe = judged(offer(plan.rate, probe_s(plan.rate, plan)), plan.objective)
    load = told(replace(load, probes=(probe,)))
    # One rate is an answer and no search: what the generator noticed is all there is to add.
    says = (*([] if probe.says in BARE.values() else [probe.says]), *probe.load.says)
    return replace(load, says=says, finished=True, wall_s=clock() - began)


def _seconds(probes: Sequence[Probe], rate: float, plan: LoadPlan, *, left: float) -> float:
    """A rate that could not be told is asked again for longer, as far as the budget goes."""
    usual = probe_s(rate, plan)
    undecided = any(probe.load.rate == rate and probe.ok is None for probe in probes)
    return max(usual, min(usual * LONGER, left)) if undecided else usual


def told(load: Load) -> Load:
    """The load test with its answer in numbers and words."""
    found = edge(load.probes)
    held, not_held, broken = found
    met = tuple(_final(load, found))
    counted = [one for one in met if _seen(one) or one.constraint.quantity == "rate"]
    ok = slo.kept(counted) if counted else None
    if load.plan.rate is None and held is None:
        ok = False if broken else None
    return replace(
        load, held=held, broken=not_held if broken else None, met=met, ok=ok, says=tuple(_answer(load, found))
    )


def _final(load: Load, found: Edge) -> Iterator[Met]:
    """The verdict on each part: of the last probe at the rate that held, and of that rate itself."""
    at = found.held if found.held is not None else found.not_held
    probe = next((one for one in reversed(load.probes) if one.load.rate == at), None)
    for met in probe.met if probe is not None else ():
        if met.constraint.quantity != "rate":
            yield met
        elif found.held is not None and found.held >= met.constraint.limit:
            yield slo.met(met.constraint, values={"rate": found.held})
        elif found.not_held is not None and found.broken and found.not_held <= met.constraint.limit:
            yield Met(
                constraint=met.constraint, ok=False, value=found.held,
                says=f"broken: {found.not_held:.4g}/s is too much already, and it must be at least {met.constraint.limit:.4g}/s",
            )  # fmt: skip
        else:
            yield Met(
                constraint=met.constraint, ok=None, value=found.held,
                says=f"cannot tell: whether {met.constraint.limit:.4g}/s holds was not found out",
            )  # fmt: skip


def _answer(load: Load, found: Edge) -> Iterator[str]:
    held, not_held, broken = found
    if not load.probes:
        yield "nothing was tried"
    elif held is None:
        how = "no rate held" if broken else "no rate could be told to hold"
        yield f"{how}: {not_held:.4g}/s is the lowest that was tried"
    elif not_held is None:
        yield f"held at every rate that was tried, up to {held:.4g}/s"
    else:
        how = "is broken" if broken else "cannot be told"
        yield f"held up to {held:.4g}/s; at {not_held:.4g}/s it {how}"
        times = sum(probe.load.rate == held for probe in load.probes)
        if times < 2:
            yield f"{held:.4g}/s was tried once only"
    if len(load.probes) > 1 and following(load.probes, load.plan) is not None:
        yield "the budget was spent before the edge was known: `--resume` goes on"
    yield from dict.fromkeys(says for probe in load.probes[-1:] for says in probe.load.says)


def offering(place: Where, requests: Sequence[Request], plan: LoadPlan) -> Offer:
    """Offers of load to one place, as a plan says."""
    shares = sorted({*SHARES, *(share for one in plan.objective if (share := slo.share_of(one)) is not None)})
    warm, seeds = False, itertools.count(plan.seed)

    def offer(rate: float, seconds: float) -> Offered:
        nonlocal warm
        if not warm:
            # What a service does for its first requests together (allocations, other batch sizes) is not what it promises.
            offered(
                place, requests, rate=rate, seconds=WARM_UP_S, connections=plan.connections, timeout_s=plan.timeout_s
            )
            warm = True
        else:
            # An overloaded service may still be busy with requests that were taken back: one answer says that it is through.
            with contextlib.suppress(NetdynoError):
                exchange(place, [requests[0].wire], timeout_s=plan.timeout_s)
        return offered(
            place, requests, rate=rate, seconds=seconds, arrivals=plan.arrivals, connections=plan.connections,
            timeout_s=plan.timeout_s, shares=shares, level=plan.level, seed=next(seeds),
            hopeless=hopeless(plan, round(rate * seconds)),
        )  # fmt: skip

    return offer
