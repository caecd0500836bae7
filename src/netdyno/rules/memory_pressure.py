"""The step needs nearly all the memory there is.

Looks for:  a peak above four fifths of what was available, or a machine that swaps.
Matters:    a larger batch, a longer sequence or a neighbour ends the run; swapping makes a step many times slower.
Try:        gradient checkpointing, a lower precision for activations, a smaller batch, fewer prefetched batches.
Not this:   memory that grows from step to step (see `memory-growth`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import MachineState, MemoryAccount
from netdyno.rules._base import rule

PRESSING = 0.80  # the allocator's fragments and the next odd-shaped batch need about a fifth
SWAPS = 64 * 2**20  # less than this is what a system parks at start-up and never reads again


@rule(suggests=("gradient-checkpointing", "bf16-autocast", "batch-size", "prefetch-factor"))
def memory_pressure(account: MemoryAccount, machine: MachineState | None) -> Finding | None:
    # Swap that is full while memory is free was filled by something that is long over.
    swaps = machine is not None and machine.swap_used > SWAPS and account.peak > machine.memory_available
    if account.pressure < PRESSING and not swaps:
        return None
    name, largest = max(parts(account).items(), key=lambda part: part[1])
    return Finding(
        says=f"a step needs {account.pressure:.0%} of the available memory; the largest part is {name}, {largest / 2**20:.0f} MiB",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={
            "peak_bytes": float(account.peak),
            "available_bytes": float(account.available),
            f"{name}_bytes": float(largest),
        },
        fix=_CURES.get(name, "use a smaller batch"),
    )


_CURES = {
    "activations": "recompute activations in the backward pass (gradient checkpointing), or keep them in bfloat16",
    "optimizer state": "use an optimizer with less state, or keep it in a lower precision",
    "parameters": "use a smaller model or a lower precision",
    "gradients": "set gradients to None between steps, and accumulate over fewer micro-batches",
    "the rest of the process": "look for data that are held in memory whole: read them as they are needed, or map them",
}


def parts(account: MemoryAccount) -> dict[str, int]:
    """The account by name, in bytes. The peak of a script is its process's: what is in no part is named too."""
    named = {
        "parameters": account.parameters,
        "gradients": account.gradients,
        "optimizer state": account.optimizer_state,
        "activations": account.activations,
        "workspace": account.workspace,
        "batch": account.batch,
    }
    return {**named, "the rest of the process": max(0, account.peak - sum(named.values()) - account.buffers)}


def _account(*, peak: int, available: int) -> MemoryAccount:
    return MemoryAccount(
        parameters=peak // 10,
        buffers=0,
        gradients=peak // 10,
        optimizer_state=peak // 5,
        activations=peak // 2,
        workspace=0,
        batch=peak // 10,
        peak=peak,
        capacity=2 * available,
        available=available,
    )


SICK = ((_account(peak=9 * 2**30, available=10 * 2**30),),)
WELL = ((_account(peak=2 * 2**30, available=10 * 2**30),),)
