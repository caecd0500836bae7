"""Which way to run a model is shipped: what keeps the objective, what is on the front, who wins, and the ladder. Pure arithmetic."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.records.deployment import Candidate, Constraint, Latency, Met, Percentile, Precision, Rung, ShipPlan, Step
from netdyno.records.measured import Interval
from netdyno.stats.percentiles import percentile
from netdyno.verdicts import slo

SHARES = (0.5, 0.9, 0.99)
# More bits first: of two ways that cannot be told apart the one that changes the answers less is shipped.
ORDER: tuple[Precision, ...] = ("fp32", "bf16", "fp16", "int8")


class Choice(NamedTuple):
    """The winner's index among the candidates, or None, and why."""

    winner: int | None
    says: tuple[str, ...]


def percentiles(
    samples: Sequence[float], objective: Sequence[Constraint] = (), level: float = 0.95
) -> tuple[Percentile, ...]:
    """P50, P90, P99, and whatever other percentile the objective names."""
    asked = {share for share in map(slo.share_of, objective) if share is not None}
    return tuple(percentile(samples, share, level) for share in sorted({*SHARES, *asked}))


def drop_constraint(plan: ShipPlan) -> Constraint:
    """How much accuracy may be lost: as the objective says, else the plan's own limit."""
    named = [one for one in plan.objective if one.quantity == "drop"]
    text = f"drop<={100 * plan.max_drop:g}%"
    return named[0] if named else Constraint(quantity="drop", limit=plan.max_drop, text=text)


def judged(candidate: Candidate, plan: ShipPlan) -> tuple[Met, ...]:
    """Each constraint of the objective, and the accuracy limit, on what was measured of a candidate."""
    values: dict[str, float | Interval] = {}
    if candidate.memory_bytes is not None:
        values["memory"] = float(candidate.memory_bytes)
    if candidate.built is not None:
        values["size"] = float(candidate.built.bytes)
    if candidate.offline_rate is not None:
        values["rate"] = candidate.offline_rate
    if candidate.load_s is not None:
        values["cold"] = candidate.load_s
    if candidate.first_s is not None:
        values["first"] = candidate.first_s
    if candidate.energy_j is not None:
        values["energy"] = Interval(middle=candidate.energy_j, low=0.0, high=candidate.energy_j, level=plan.level)
    single = latency_of(candidate, plan.rows)
    known = single.percentiles if single is not None else ()
    rest = [one for one in plan.objective if one.quantity != "drop"]
    found = slo.all_met(rest, percentiles=known, values=values)
    return (_drop(candidate, drop_constraint(plan)), *found)


def _drop(candidate: Candidate, limit: Constraint) -> Met:
    accuracy = candidate.accuracy
    if accuracy is not None:
        ok = {"holds": True, "broken": False, "cannot tell": None}[accuracy.decision]
        return Met(constraint=limit, ok=ok, value=accuracy.drop.middle, says=accuracy.says)
    broken = [rung for rung in candidate.parity if rung.holds is False]
    if broken:
        return Met(constraint=limit, ok=False, says=broken[0].says)
    if candidate.exact and candidate.parity and all(rung.holds for rung in candidate.parity):
        return Met(constraint=limit, ok=True, value=0.0, says="kept: the answers are the module's own up to rounding")
    return Met(constraint=limit, ok=None, says="cannot tell: there is no validation data to judge it on")


def latency_of(candidate: Candidate, rows: int) -> Latency | None:
    """The latency that was measured with so many rows."""
    return next((one for one in candidate.latency if one.rows == rows), None)


def score(candidate: Candidate, plan: ShipPlan) -> float | None:
    """What the plan minimises, in its unit: seconds of a percentile, CPU seconds, bytes, or minus the rate."""
    single = latency_of(candidate, plan.rows)
    goal = plan.minimise
    if goal == "rate":
        return -candidate.offline_rate if candidate.offline_rate is not None else None
    if goal == "memory":
        return float(candidate.memory_bytes) if candidate.memory_bytes is not None else None
    if single is None:
        return None
    if goal == "cpu":
        return single.cpu_s
    wanted = float(goal.removeprefix("p")) / 100
    if wanted <= 0.5 and candidate.trial is not None:
        # The calling thread's own time: what neighbours take from it is not the candidate's doing.
        return median(candidate.trial.treatment.samples)
    return next((one.seconds for one in single.percentiles if abs(one.share - wanted) < 1e-9), None)


def front(candidates: Sequence[Candidate], plan: ShipPlan) -> tuple[Candidate, ...]:
    """The candidates, each told whether another is at least as quick, as true and as small, and better in one."""
    seen = [(at, _corner(one, plan)) for at, one in enumerate(candidates)]
    known = [(at, corner) for at, corner in seen if corner is not None]
    best = {at for at, mine in known if not any(_beats(theirs, mine) for other, theirs in known if other != at)}
    return tuple(replace(one, on_front=at in best) for at, one in enumerate(candidates))


def _corner(candidate: Candidate, plan: ShipPlan) -> tuple[float, float, float] | None:
    value = score(candidate, plan)
    if candidate.failed or candidate.skipped or value is None:
        return None
    lost = candidate.accuracy.drop.middle if candidate.accuracy is not None else 0.0
    if any(rung.holds is False for rung in candidate.parity):
        return None
    return value, max(0.0, lost), float(candidate.memory_bytes or 0)


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


def choose(candidates: Sequence[Candidate], plan: ShipPlan) -> Choice:
    """The best by what is minimised among those that keep every part of the objective.

    One about which it cannot be told is not shipped, and is named when it would have been better. Where nothing keeps the objective, the
    nearest is named with what it breaks.
    """
    ready = [(at, one) for at, one in enumerate(candidates) if one.stage == "measured" and not one.failed]
    scored = [(value, at, one) for at, one in ready if (value := score(one, plan)) is not None]
    if not scored:
        return Choice(None, ("no way to run it was measured to the end",))
    ranked = sorted(scored, key=lambda item: item[0])
    kept = [item for item in ranked if slo.kept(item[2].met) is True]
    open_ones = [item for item in ranked if slo.kept(item[2].met) is None]
    if not kept:
        return Choice(None, _refused(ranked, open_ones))
    first = kept[0]
    alike = [item for item in kept if _alike(first, item)]
    chosen = min(alike, key=lambda item: (item[2].side is not None, ORDER.index(item[2].precision), item[0]))
    says = []
    if chosen is not first:
        says.append(
            f"{first[2].label} is not surely quicker: of two ways that cannot be told apart the one that changes answers less is taken"
        )
    for value, _, one in open_ones:
        if value < chosen[0]:
            unsure = next(met for met in one.met if met.ok is None)
            says.append(f"{one.label} would be better, and is not taken: {unsure.says}")
    return Choice(chosen[1], tuple(says))


def _alike(first: tuple[float, int, Candidate], other: tuple[float, int, Candidate]) -> bool:
    """Whether two speed-ups over the module overlap by their intervals, and their middles by less than a twentieth."""
    mine, theirs = first[2].speedup, other[2].speedup
    if mine is None or theirs is None:
        return first is other
    return mine.low <= theirs.high and theirs.low <= mine.high and mine.middle <= 1.05 * theirs.middle


def _refused(
    ranked: Sequence[tuple[float, int, Candidate]], open_ones: Sequence[tuple[float, int, Candidate]]
) -> tuple[str, ...]:
    nearest = min(ranked, key=lambda item: (sum(met.ok is False for met in item[2].met), item[0]))[2]
    broken = [met.says for met in nearest.met if met.ok is False]
    unsure = [met.says for met in nearest.met if met.ok is None]
    says = [
        "no way to run it surely keeps the objective",
        f"nearest is {nearest.label}: {'; '.join(broken or unsure)}",
    ]
    if broken and nearest.precision == "int8":
        says.append("quantisation-aware training may win the accuracy back: declare `train=` in the release")
    if open_ones and not broken:
        needs = [one.accuracy.needs for _, _, one in open_ones if one.accuracy is not None and one.accuracy.needs]
        says += [f"{min(needs)} validation samples would tell"] if needs else []
    return tuple(says)


def ladder(control: Candidate, candidates: Sequence[Candidate]) -> tuple[Step, ...]:
    """From the module as it is to the quickest, a rung for each precision on the way (ledger A-279), accuracy beside each.

    Each rung is the quickest of its precision whose answers hold; one that is slower than the rung above says so and stays. Then the
    quickest at each smaller resolution.
    """
    found: list[Step] = []
    if control.trial is not None or control.latency:
        seconds = _seconds(control)
        found.append(
            Step(name="eager fp32", seconds=seconds, accuracy=_accuracy(candidates), says="the module as it is")
        )
    there = [one for one in candidates if one.speedup is not None and not one.failed]
    there = [one for one in there if not any(rung.holds is False for rung in one.parity)]
    sides = sorted({one.side for one in there if one.side is not None}, reverse=True)
    rungs = [
        *([one for one in there if one.side is None and one.precision == precision] for precision in ORDER),
        *([one for one in there if one.side == side] for side in sides),
    ]
    return (*found, *map(_rung, filter(None, rungs)))


def _rung(alike: Sequence[Candidate]) -> Step:
    """The quickest of them as a step."""
    best = max(alike, key=lambda one: one.speedup.middle if one.speedup is not None else 0.0)
    return Step(
        name=f"{best.change.id} {best.precision}" + (f" at {best.side}" if best.side is not None else ""),
        seconds=_seconds(best),
        ratio=best.speedup,
        accuracy=best.accuracy.treatment if best.accuracy is not None else None,
        says=best.label,
    )


def _accuracy(candidates: Sequence[Candidate]) -> float | None:
    return next((one.accuracy.control for one in candidates if one.accuracy is not None), None)


def _seconds(candidate: Candidate) -> Interval:
    samples = candidate.trial.treatment.samples if candidate.trial is not None else candidate.latency[0].samples
    found = percentile(samples, 0.5)
    return found.interval or Interval(middle=found.seconds, low=min(samples), high=max(samples))


def worst_rung(rungs: Sequence[Rung]) -> Rung | None:
    """The rung that holds least: a broken one, else of those that were judged the one with the least signal to noise."""
    return min(
        rungs,
        key=lambda rung: (
            rung.holds is not False,
            rung.holds is None,
            rung.sqnr_db if rung.sqnr_db is not None else 300.0,
        ),
        default=None,
    )
