"""Requests are gathered into batches of one, since only one of them may be under way.

Looks for:  a thread that waits for further requests in vain before nearly every call of the model, while several other threads stand
            still on one lock.
Matters:    each request waits for the whole delay of the batcher, and no batch ever forms.
Try:        hold the lock for the hand-over only, not while waiting for the answer.
Not this:   a service with little to do, whose other threads have no request.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import BatcherUse
from netdyno.rules._base import rule

# Enough calls to speak of all; nearly one request in each; nearly each after waiting in vain; a batch that could have formed.
CALLS, ALONE, IN_VAIN, WAITING = 20, 1.2, 0.8, 3


@rule(stage="use")
def idle_batcher(use: BatcherUse) -> Finding | None:
    if (
        use.calls < CALLS
        or use.requests > ALONE * use.calls
        or use.timeouts < IN_VAIN * use.calls
        or use.blocked < WAITING
    ):
        return None
    return Finding(
        says=f"batches hold {use.requests / use.calls:.2f} requests each: {use.timeouts} of {use.calls} times the batcher waited in vain "
        f"({use.waited_s:.2g} s in all), while {use.blocked} threads stood before one lock",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={
            "calls": float(use.calls),
            "requests": float(use.requests),
            "waited_s": use.waited_s,
            "blocked": float(use.blocked),
        },
        fix="don't hold the lock while waiting for the answer",
        where=use.where,
        confidence=0.85,
    )


def _use(*, requests: int = 192, timeouts: int = 192, blocked: int = 15) -> BatcherUse:
    return BatcherUse(
        calls=192,
        requests=requests,
        timeouts=timeouts,
        waited_s=2.0,
        blocked=blocked,
        where=Place(file="serve.py", line=44),
    )


SICK = ((_use(),),)
# Batches form; nobody waits; requests come at once.
WELL = ((_use(requests=1500),), (_use(blocked=0),), (_use(timeouts=10),))
