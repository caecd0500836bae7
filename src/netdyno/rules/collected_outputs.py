"""An evaluation keeps every output of the model until its end.

Looks for:  outputs of one evaluation that are nearly all alive at once and take a quarter of the process's memory.
Matters:    memory grows with the number of samples evaluated, and is at its peak there.
Try:        add up what the score needs batch by batch: counts, sums, a confusion matrix.
Not this:   small outputs, which scores over all samples need (a ranking, a curve); predictions instead of scores.
"""

import msgspec

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.growth import Growth
from netdyno.rules._base import rule

# A process with PyTorch takes 200 MiB before it does anything.
SHARE = 0.25
FEW = 8


@rule(suggests=(), stage="use")
def collected_outputs(growth: Growth) -> Finding | None:
    # What an allocator keeps of freed memory counts as resident: the smallest reading is next to what is needed.
    whole = min((size for _, size in growth.resident), default=0)
    if growth.outputs < FEW or not whole or growth.outputs_kept_bytes < SHARE * whole:
        return None
    share = growth.outputs_kept_bytes / whole
    return Finding(
        says=f"an evaluation holds all of its {growth.outputs} outputs at once, {growth.outputs_kept_bytes / 2**20:.0f} MiB or {share:.0%} of"
        " what the process takes without them",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={
            "outputs": float(growth.outputs),
            "bytes": float(growth.outputs_kept_bytes),
            "resident_bytes": float(whole),
        },
        fix="keep what the score needs of each batch, not its outputs",
        where=growth.outputs_where,
        confidence=0.8,
        explains=("memory-leak", "memory-pressure"),
    )


def _growth(outputs: int, size: int) -> Growth:
    where = Place(file="train.py", line=44)
    return Growth(
        updates=10,
        cycle=1,
        resident=((1, 400 << 20),),
        outputs=outputs,
        outputs_kept_bytes=size << 20,
        outputs_where=where,
    )


# The second one's memory seems to grow all along, as freed blocks are not given back.
SICK = ((_growth(64, 200),), (msgspec.structs.replace(_growth(64, 122), resident=((2, 400 << 20), (128, 870 << 20))),))
WELL = ((_growth(0, 0),), (_growth(64, 2),))
