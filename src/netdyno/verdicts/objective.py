"""The three tiers of an objective (ledger A-005): what is feasible, what is best under limits, what is worth it. Pure arithmetic."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from netdyno.records.study import Candidate, Limits, Run, Tier

# Ledger A-005: a training whose gradients leave these bounds is about to stand still or to fly apart.
LEAST_NORM, MOST_NORM = 1e-3, 1e2


def feasible(runs: Sequence[Run], *, gradient_norm: float | None = None) -> Tier:
    """Tier 1: every seed trains to its end, and its loss falls."""
    failed = [run for run in runs if run.failed is not None]
    if not runs or failed:
        why = failed[0].failed if failed else "nothing ran"
        return Tier(name="feasible", ok=False, says=f"{len(failed)} of {len(runs)} runs failed: {why}")
    still = [run for run in runs if len(run.course) > 1 and run.course[-1][1] >= run.course[0][1]]
    if still:
        return Tier(
            name="feasible", ok=False, says=f"the validation loss does not fall on {len(still)} of {len(runs)} seeds"
        )
    if gradient_norm is not None and not LEAST_NORM <= gradient_norm <= MOST_NORM:
        return Tier(
            name="feasible",
            ok=False,
            says=f"the gradients' norm is {gradient_norm:.2g}, not between {LEAST_NORM:g} and {MOST_NORM:g}",
        )
    norm = f"; the gradients' norm is {gradient_norm:.2g}" if gradient_norm is not None else ""
    return Tier(
        name="feasible", ok=True, says=f"{len(runs)} of {len(runs)} seeds train to their end, and the loss falls{norm}"
    )


def within(candidate: Candidate, limits: Limits) -> tuple[str, ...]:
    """Which limits a candidate breaks, in words."""
    broken = []
    if limits.seconds is not None and candidate.seconds > limits.seconds:
        broken.append(f"a run takes {candidate.seconds:.3g} s, more than {limits.seconds:g}")
    if limits.bytes is not None and candidate.bytes > limits.bytes:
        broken.append(f"it needs {candidate.bytes} bytes, more than {limits.bytes}")
    if limits.latency_s is not None and candidate.latency_s > limits.latency_s:
        broken.append(f"an answer takes {candidate.latency_s * 1e3:.3g} ms, more than {limits.latency_s * 1e3:g}")
    return tuple(broken)


def judged(candidates: Sequence[Candidate], limits: Limits) -> tuple[Candidate, ...]:
    """Candidates with what is feasible under the limits, and which stand on the Pareto front of those."""
    open_ones = [one for one in candidates if one.feasible and not within(one, limits)]
    return tuple(
        replace(one, feasible=one in open_ones, on_front=one in open_ones and not _dominated(one, open_ones))
        for one in candidates
    )


def _dominated(one: Candidate, others: Sequence[Candidate]) -> bool:
    return any(_at_least(other, one) and not _at_least(one, other) for other in others)


def _at_least(one: Candidate, other: Candidate) -> bool:
    """As good in all respects."""
    return (
        one.score >= other.score
        and one.seconds <= other.seconds
        and one.bytes <= other.bytes
        and one.latency_s <= other.latency_s
    )


def best(candidates: Sequence[Candidate], limits: Limits) -> tuple[Candidate | None, Tier]:
    """Tier 2: the highest score among what is feasible and breaks no limit."""
    open_ones = [one for one in candidates if one.feasible and not within(one, limits)]
    if not open_ones:
        broken = [words for one in candidates if one.feasible for words in within(one, limits)]
        why = broken[0] if broken else "no candidate is feasible"
        return None, Tier(name="best under the limits", ok=False, says=why)
    chosen = max(open_ones, key=lambda one: (one.score, -one.seconds))
    return chosen, Tier(
        name="best under the limits", ok=True, says=f"score {chosen.score:.4g}, a run of {chosen.seconds:.3g} s"
    )


def worth_it(
    candidates: Sequence[Candidate], value: Callable[[Candidate], float], chosen: Candidate
) -> tuple[Candidate, Tier]:
    """Tier 3: what a candidate is worth to the business overrules a score that is a little higher."""
    valued = [replace(one, value=value(one)) for one in candidates if one.feasible]
    richest = max(valued, key=lambda one: one.value or 0.0)
    mine = value(chosen)
    if (richest.value or 0.0) > mine:
        says = f"the highest score is worth {mine:.4g}, another candidate {richest.value:.4g}: it is taken"
        return richest, Tier(name="worth it", ok=True, says=says)
    return replace(chosen, value=mine), Tier(name="worth it", ok=True, says=f"worth {mine:.4g}")
