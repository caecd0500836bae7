"""What this machine can do at best: matrix products per second, and bytes per second through memory."""

from collections.abc import Callable
from datetime import UTC, datetime

import torch

from netdyno.measure import host
from netdyno.measure.stopwatch import Clock, thread_clock
from netdyno.records.environment import Ceilings, Environment

DTYPES = (torch.float32, torch.bfloat16, torch.float64)
SIDES = (256, 512, 1024, 2048, 4096, 8192)
# A ceiling is the best of several runs: whatever disturbs a run can only make it slower.
LEAST_RUNS = 4
MOST_RUNS = 2_000
LONGEST_RUN_S = 0.15  # a larger product would take longer than this: the last side is large enough


def ceilings(environment: Environment, *, clock: Clock | None = None, threads: int | None = None) -> Ceilings:
    """The best matrix rate per dtype and the best triad rate, in about three seconds.

    Times are running plus blocked seconds, so a busy machine lowers the result little. `threads` holds during
    the measurement only; without it the present number is used.
    """
    device = torch.device(environment.device.split(" ")[0])
    clock = clock or thread_clock()
    before = torch.get_num_threads()
    threads = threads or before
    try:
        torch.set_num_threads(threads)
        rates = {str(dtype).removeprefix("torch."): matmul_rate(dtype, device, clock=clock) for dtype in DTYPES}
        bandwidth = triad_rate(device, clock=clock)
    finally:
        torch.set_num_threads(before)
    return Ceilings(
        environment=environment.id,
        threads=threads,
        matmul={name: rate for name, rate in rates.items() if rate},
        bandwidth=bandwidth,
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def matmul_rate(dtype: torch.dtype, device: torch.device, *, clock: Clock, budget_s: float = 0.4) -> float:
    """FLOP per second of the best square matrix product; 0.0 where the device cannot multiply `dtype`."""
    best = 0.0
    for side in SIDES:
        flops = 2.0 * side**3
        if best and flops / best > LONGEST_RUN_S:
            break
        try:
            left = torch.ones(side, side, dtype=dtype, device=device)
            right, out = torch.ones_like(left), torch.empty_like(left)
            seconds = fastest(_call(torch.mm, left, right, out=out), device, clock=clock, budget_s=budget_s / 4)
        except RuntimeError:
            break  # no such kernel, or no memory for this side
        best = max(best, flops / seconds)
    return best


def triad_rate(device: torch.device, *, clock: Clock, budget_s: float = 0.4) -> float:
    """Bytes per second of `a = b + 3 c` over arrays that no cache can hold (two reads and one write)."""
    # Four caches per array: what the last pass left in the cache then serves little of the next one.
    size = max(64 << 20, min(4 * host.last_level_cache(), 512 << 20))
    size = min(size, host.memory_available() // 16)
    first = torch.ones(size // 4, device=device)
    second, out = torch.ones_like(first), torch.empty_like(first)
    seconds = fastest(_call(torch.add, first, second, alpha=3.0, out=out), device, clock=clock, budget_s=budget_s)
    return 3.0 * out.numel() * out.element_size() / seconds


def fastest(work: Callable[[], object], device: torch.device, *, clock: Clock, budget_s: float) -> float:
    """Running plus blocked seconds of the fastest of several calls, after one that is not counted."""
    settle = _settler(device)
    work()
    settle()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < LEAST_RUNS or (spent < budget_s and runs < MOST_RUNS):
        before = clock()
        work()
        settle()
        after = clock()
        wall = (after.wall - before.wall) / 1e9
        own = wall - max(0, after.waiting - before.waiting) / 1e9
        spent, runs = spent + wall, runs + 1
        if own > 0:
            best = min(best, own)
    return best


def _call(function: Callable[..., object], *args: object, **settings: object) -> Callable[[], object]:
    return lambda: function(*args, **settings)


def _settler(device: torch.device) -> Callable[[], None]:
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    return lambda: None
