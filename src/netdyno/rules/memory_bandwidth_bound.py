"""Moving bytes is the limit: operators wait for memory, not for arithmetic.

Looks for:  bytes that at the memory's best rate would still take a quarter of the step, and more than the
            arithmetic on them would.
Matters:    a faster multiplier changes nothing; fewer bytes do.
Try:        a compiled model (fused operators keep values in registers), a lower precision (half the bytes),
            in-place activations, another memory layout.
Not this:   batches copied to a device (see `copy-bound`), or operators so small that calling them costs more
            than their work (see `python-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import LayerTable, StepTimeline, ThreadUse
from netdyno.rules._base import rule
from netdyno.rules._roofline import CROWDED, heaviest, limit, specimen


@rule(suggests=("compile-model", "bf16-autocast", "channels-last", "glibc-arena-reuse"), stage="nature")
def memory_bandwidth_bound(
    timeline: StepTimeline, table: LayerTable, ceilings: Ceilings, threads: ThreadUse | None
) -> Finding | None:
    reached = limit(table.step_bytes, ceilings.bandwidth, timeline, table, threads)
    if reached is None or table.intensity >= table.ridge:
        return None
    return Finding(
        says=f"moving bytes alone needs {reached.share:.0%} of a step, {table.intensity:.2g} FLOP per byte where {table.ridge:.1f} balance",
        layer="memory",
        # At best no byte moves more than the arithmetic alone would hide.
        saves=Saving(low=0.0, high=reached.share * (1 - table.intensity / table.ridge)),
        because={
            "share_of_step": reached.share,
            "bytes_per_s": reached.rate,
            "ceiling_bytes_per_s": ceilings.bandwidth,
            "flop_per_byte": table.intensity,
            "ridge_flop_per_byte": table.ridge,
        },
        fix="move fewer bytes: fuse element-wise operators by compiling, halve them by a lower precision, drop copies",
        where=heaviest(table.layers, lambda layer: layer.bytes),
        confidence=reached.confidence,
    )


# Three fifths of the best rate; a twentieth of it while spinning threads stretch the step.
SICK = (specimen(flops=1e8, moved=6e8), (*specimen(flops=1e7, moved=5e7), CROWDED))
# Above the ridge; a step that moves little.
WELL = (specimen(flops=8e9, moved=6e8), specimen(flops=1e7, moved=5e7))
