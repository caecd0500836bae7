"""One of the processes that train together takes longer than the others, which wait for it in every update.

Looks for:  a process whose own work of an update is longer by a fifth of the update, while all the others stand blocked in the
            backward pass, where gradients are averaged, for as long.
Matters:    the slowest process sets the pace of all.
Try:        find what it does more: larger samples, a slow disk, logging, a core that it shares.
Not this:   processes that are all slow, evaluation or saving that one does for all, processes that do not train together.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.growth import Rank, Ranks
from netdyno.rules._base import rule

# Less than a fifth comes and goes with what else the machine does.
BEHIND = 0.2
# What the others wait is what the slowest is behind, but for the noise of both.
AS_LONG = 0.5
UPDATES = 20


@rule(stage="speed")
def straggler_rank(ranks: Ranks) -> Finding | None:
    slowest = max(ranks.ranks, key=lambda rank: rank.busy_s)
    others = [rank for rank in ranks.ranks if rank is not slowest]
    if not others or not ranks.step_s or slowest.updates < UPDATES:
        return None
    behind = slowest.busy_s - max(rank.busy_s for rank in others)
    if behind < BEHIND * ranks.step_s:
        return None
    waits = min(rank.waits_s for rank in others)
    if waits - slowest.waits_s < AS_LONG * behind:
        return None
    return Finding(
        says=f"process {slowest.number} of {len(ranks.ranks)} works {slowest.busy_s * 1e3:.3g} ms on an update, the others at most"
        f" {(slowest.busy_s - behind) * 1e3:.3g} ms, and wait for it",
        layer="compute",
        saves=Saving(low=0.0, high=min(1.0, behind / ranks.step_s)),
        because={"behind_s": behind, "others_wait_s": waits, "step_s": ranks.step_s},
        fix=f"find out what process {slowest.number} does more than the others",
        where=slowest.where,
        confidence=0.8,
        explains=("idle-overlap", "python-bound", "input-bound"),
    )


def _ranks(*pairs: tuple[float, float], updates: int = 200) -> Ranks:
    where = Place(file="train.py", line=80)
    ranks = tuple(
        Rank(number=number, updates=updates, busy_s=busy / 1e3, waits_s=waits / 1e3, where=where)
        for number, (busy, waits) in enumerate(pairs)
    )
    return Ranks(ranks=ranks, step_s=max(rank.busy_s + rank.waits_s for rank in ranks))


SICK = ((_ranks((4.0, 11.0), (14.0, 0.5)),), (_ranks((4.0, 9.0), (5.0, 8.0), (4.5, 9.0), (13.0, 0.5)),))
# All alike; all slow; one longer, and nobody waits for it; a little behind; too few updates to tell.
WELL = (
    (_ranks((4.0, 1.0), (4.2, 0.8)),),
    (_ranks((14.0, 1.0), (14.5, 0.8)),),
    (_ranks((4.0, 0.5), (14.0, 0.5)),),
    (_ranks((4.0, 1.5), (4.8, 0.8)),),
    (_ranks((4.0, 11.0), (14.0, 0.5), updates=8),),
)
