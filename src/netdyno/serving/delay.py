"""The queue delay: chosen by trying several against the promise in virtual time, with what batches were seen to cost.

The batcher itself is run, with a worker that takes as long as calls took in the warm-up, under requests that arrive at random. The
longest rate that keeps the promise decides; of delays that do as well, the shortest.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from netdyno.serving.batcher import Batcher
from netdyno.serving.batches import Costs
from netdyno.serving.virtual import Simulated, run
from netdyno.serving.warm_up import Sized, Warmed

REQUESTS = 1000  # of each trial: ten beyond a P99
# A delay is worth its latency when it carries this much more; less is within what another seed would say.
WORTH = 1.05
# Of the promised latency. The largest lets half of it be waited away.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
STEPS = 6  # halvings of the range of rates: 3 % of it is left
SEED = 20
WITHOUT_END = 1 << 30  # of the queue in a trial: who is refused has no latency


class Tried(NamedTuple):
    """A delay, and the highest rate of rows per second with which the promise was kept; 0 where it was not worth a look."""

    delay_s: float
    rate: float


class Chosen(NamedTuple):
    """The delay that is used, what was tried, and why."""

    delay_s: float
    tried: tuple[Tried, ...]
    says: str


def chosen(warm: Warmed, *, promise_s: float | None, share: float, given: float | None) -> Chosen:
    """The delay for a warmed-up model; `given` is a person's own choice."""
    if given is not None:
        return Chosen(given, (), "as it was asked for")
    if promise_s is None:
        return Chosen(0.0, (), "none: nothing is promised, so nobody waits for company")
    if warm.costs.largest == 1:
        return Chosen(0.0, (), "none: one row at a time is all that can be run")
    return swept(warm.costs, seconds_of(warm.sizes), promise_s=promise_s, share=share)


def swept(
    costs: Costs,
    seconds: Callable[[int], float],
    *,
    promise_s: float,
    share: float = 0.99,
    shares: Sequence[float] = SHARES,
) -> Chosen:
    """The delay under which the promise is kept at the highest rate; `seconds(rows)` is drawn anew for every batch."""

    def kept(delay_s: float, rate: float) -> bool:
        latencies = simulated(costs, seconds, rate=rate, delay_s=delay_s)
        return float(np.quantile(latencies, share, method="higher")) <= promise_s

    full = 1.0 / costs.per_row
    none = Tried(0.0, _highest(partial(kept, 0.0), 0.0, full, STEPS))
    if none.rate <= 0.0:
        return Chosen(0.0, (none,), f"none: {promise_s * 1e3:g} ms cannot be kept at any rate, whatever the delay")
    worth, tried = WORTH * none.rate, [none]
    for delay_s in (promise_s * part for part in shares):
        rate = 0.0
        # One look at what would make it worth while; the rest only for those that pass.
        if worth < full and kept(delay_s, worth):
            rate = _highest(partial(kept, delay_s), worth, full, STEPS - 2)
        tried.append(Tried(delay_s, rate))
    best = max(tried, key=lambda one: one.rate)
    if best.rate <= worth:
        return Chosen(
            0.0, tuple(tried), f"none: no delay carries {WORTH - 1:.0%} more than {none.rate:.0f} rows a second"
        )
    least = next(one for one in tried if one.rate * WORTH >= best.rate)
    return Chosen(
        least.delay_s,
        tuple(tried),
        f"{least.delay_s * 1e3:.2g} ms: {least.rate:.0f} rows a second, without it {none.rate:.0f}",
    )


def _highest(kept: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """The highest rate that is kept, by halving the range; `low` where none above it is."""
    for _ in range(steps):
        rate = (low + high) / 2
        low, high = (rate, high) if kept(rate) else (low, rate)
    return low


def simulated(
    costs: Costs, seconds: Callable[[int], float], *, rate: float, delay_s: float, requests: int | None = None
) -> list[float]:
    """Latencies of single rows that arrive at random at this rate, in virtual time."""
    requests = requests or REQUESTS
    gaps = random.Random(SEED)
    row = (np.zeros((1, 1), dtype=np.float32),)

    async def one(batcher: Batcher) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await batcher.answer(row)
        return loop.time() - began

    async def all_of_them() -> list[float]:
        worker = Simulated(lambda rows: seconds(costs.size_for(rows)))
        batcher = Batcher(worker, costs, most_waiting=WITHOUT_END, delay_s=delay_s)
        asking = []
        for _ in range(requests):
            await asyncio.sleep(gaps.expovariate(rate))
            asking.append(asyncio.ensure_future(one(batcher)))
        return await asyncio.gather(*asking)

    return run(all_of_them())


def seconds_of(sizes: Sequence[Sized]) -> Callable[[int], float]:
    """Draws what a batch takes from what it took in the warm-up, the same draws for every delay that is tried."""
    chance = random.Random(SEED)
    usual = {one.rows: one.usual for one in sizes}
    return lambda rows: chance.choice(usual[rows])
