"""Smaller images (ledger A-112): what the module still gets right on them, and the best ways to run it tried at those that keep the limit."""

from collections.abc import Iterator, Sequence
from statistics import median

from netdyno.errors import TargetError
from netdyno.records.deployment import Candidate, Resolution
from netdyno.shipping import accuracy
from netdyno.shipping.journey import Journey
from netdyno.shipping.screening import middle
from netdyno.verdicts import shipping as verdicts

# Ways that are tried at another resolution: at the smallest that keeps the limit, and at a larger one when they lose too much there.
WAYS = 2
# And the second only when it is within this of the first on images as they come: smaller ones help both.
NEAR = 1.25
# So many sizes that may keep the limit are wanted: the smallest, and one above it for ways that lose more than the module.
WANTED = 2
# A sweep takes at most this share of what is left of the budget.
SHARE = 0.25


def swept(journey: Journey) -> Iterator[Resolution]:
    """The module itself on smaller images, the smallest first, until two sizes may keep the limit. Nothing is exported for it.

    That a larger image loses less is a rule of thumb, and not believed: a network can do worse at an odd size than at half of its own.
    """
    subject = journey.subject
    sides = sorted({side for side in subject.release.sizes if side > 0})
    if not sides:
        return
    own = subject.example[0].shape[-1]
    if subject.release.validation is None:
        yield from (_left_out(side, own, "there is no validation data to judge it on") for side in sides)
        return
    journey.says("the module on the validation data")
    accuracy.prepare(subject)
    limit = verdicts.drop_constraint(journey.plan).limit
    ends = journey.clock() + SHARE * journey.left()
    taken: list[float] = []
    found: list[Resolution] = []
    for side in sides:
        if len(_kept(found)) == WANTED:
            yield _left_out(side, own, f"{_kept(found)[0].side} pixels are fewer, and may keep the limit")
            continue
        # A larger image takes longer by its share of pixels, about.
        expected = median(taken) * (side / own) ** 2 if taken else 0.0
        if journey.clock() + expected > ends:
            yield _left_out(side, own, f"it takes about {expected:.0f} s, and the budget has no room for that")
            continue
        journey.says(f"the module on images of {side} pixels")
        began = journey.clock()
        found.append(_looked_at(journey, side, own, limit))
        taken.append((journey.clock() - began) / (side / own) ** 2)
        yield found[-1]


def _looked_at(journey: Journey, side: int, own: int, limit: float) -> Resolution:
    try:
        there = journey.source(journey.at(side))
    except TargetError as error:
        return _left_out(side, own, f"{error.what}: {error.because}")
    found = accuracy.guard(journey.subject, there.answers, limit=limit, level=journey.plan.level)
    return Resolution(side=side, data=(side / own) ** 2, accuracy=found, says=found.says if found is not None else "")


def _left_out(side: int, own: int, why: str) -> Resolution:
    return Resolution(side=side, data=(side / own) ** 2, says=f"not tried: {why}")


def proposals(
    journey: Journey, candidates: Sequence[Candidate], resolutions: Sequence[Resolution]
) -> Iterator[Candidate]:
    """The quickest ways so far, at the smallest images that may keep the limit."""
    quick = sorted((one for one in candidates if middle(one) and one.failed is None and one.side is None), key=middle)
    best = quick[-WAYS:][::-1]
    if not journey.plan.exhaustive:
        best = [way for way in best if middle(way) * NEAR >= middle(best[0])]
    for smallest in _kept(resolutions)[:1]:
        yield from (_proposal(journey, way, smallest) for way in best)


def larger(journey: Journey, lost: Candidate, resolutions: Sequence[Resolution]) -> Iterator[Candidate]:
    """The same way at the next larger images, for one that loses too much at its own."""
    if lost.side is not None:
        above = [one for one in _kept(resolutions) if one.side > lost.side]
        yield from (_proposal(journey, lost, one) for one in above[:1])


def in_other_precision(
    journey: Journey, lost: Candidate, candidates: Sequence[Candidate], resolutions: Sequence[Resolution]
) -> Iterator[Candidate]:
    """The quickest way in another precision at the same images, for one that loses too much on them, unless it was tried there."""
    whole = [one for one in candidates if one.side is None and one.failed is None and one.precision != lost.precision]
    best = max(whole, key=middle, default=None)
    if best is None or not middle(best):
        return
    there = {one.label for one in candidates}
    found = (_proposal(journey, best, at) for at in resolutions if at.side == lost.side)
    yield from (proposal for proposal in found if proposal.label not in there)


def _kept(resolutions: Sequence[Resolution]) -> list[Resolution]:
    """Those that may keep the limit, the smallest first."""
    there = [one for one in resolutions if one.accuracy is not None and one.accuracy.decision != "broken"]
    return sorted(there, key=lambda one: one.side)


def _proposal(journey: Journey, way: Candidate, at: Resolution) -> Candidate:
    return Candidate(
        change=way.change,
        precision=way.precision,
        origin=journey.at(at.side),
        side=at.side,
        running=way.running,
        says=(f"images are resized to {at.side} pixels inside, {at.data:.3g} of the data",),
    )
