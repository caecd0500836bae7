"""The optimizer keeps state for weights that are frozen.

Looks for:  momentum and averages of weights that no longer ask for a gradient, in a third of the optimizer's state or more.
Matters:    with Adam each frozen weight is held three times, and is stored so in every checkpoint.
Try:        freeze first, and give the optimizer only what is trained; or make a new one after freezing.
Not this:   weights that were frozen before the first step, which have no state; heads that rest for some batches;
            small models, and optimizers of an earlier stage.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.growth import Growth
from netdyno.rules._base import rule

# Freezing some layers late is common and costs little.
WORTH_A_WORD = 1 / 3
# What an allocator keeps for itself is more than a fiftieth of a process: nobody would see it go.
FELT = 1 / 50


@rule(suggests=(), stage="use")
def oversized_optimizer_state(growth: Growth) -> Finding | None:
    if not growth.state_bytes or growth.frozen_state_bytes < WORTH_A_WORD * growth.state_bytes:
        return None
    if not growth.resident or growth.frozen_state_bytes < FELT * growth.resident[-1][1]:
        return None
    share = growth.frozen_state_bytes / growth.state_bytes
    return Finding(
        says=f"{share:.0%} of the optimizer's state ({growth.frozen_state_bytes / 2**20:.2g} MiB) belongs to weights that are frozen by now",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={"state_bytes": float(growth.state_bytes), "frozen_state_bytes": float(growth.frozen_state_bytes)},
        fix="make a new optimizer from the weights that still require gradients, or freeze before the first step",
        confidence=0.85,
    )


def _growth(state: int, frozen: int) -> Growth:
    return Growth(
        updates=100, cycle=1, resident=((90, 400 << 20),), parameter_bytes=state // 2, state_bytes=state, frozen_state_bytes=frozen
    )  # fmt: skip


SICK = ((_growth(80 << 20, 70 << 20),),)
# A backbone frozen from the start; plain SGD; one small layer frozen at the end; a small model.
WELL = ((_growth(8 << 20, 0),), (_growth(0, 0),), (_growth(80 << 20, 4 << 20),), (_growth(8000, 7000),))
