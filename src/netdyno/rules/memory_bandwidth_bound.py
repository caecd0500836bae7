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
from netdyno.records.evidence import Layer, LayerTable, Place, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import ROOFLINE_SHARE, SPUN_SHARE, rule, spinning

WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=("compile-model", "bf16-autocast", "channels-last", "glibc-arena-reuse"))
def memory_bandwidth_bound(
    timeline: StepTimeline, table: LayerTable, ceilings: Ceilings, threads: ThreadUse | None
) -> Finding | None:
    if not ceilings.bandwidth or not table.compute_seconds or table.intensity >= table.ridge:
        return None
    work = timeline.share(*WORK)
    rate = table.step_bytes / table.compute_seconds
    # Above 1 when part of the bytes come from a cache: then memory is not all, but bytes still are the limit.
    share = work * min(1.0, rate / ceilings.bandwidth)
    if share < (SPUN_SHARE if spinning(threads) else ROOFLINE_SHARE):
        return None
    return Finding(
        says=f"moving bytes alone needs {share:.0%} of a step, {table.intensity:.2g} FLOP per byte where {table.ridge:.1f} balance",
        layer="memory",
        # At best no byte moves more than the arithmetic alone would hide.
        saves=Saving(low=0.0, high=share * (1 - table.intensity / table.ridge)),
        because={
            "share_of_step": share,
            "bytes_per_s": rate,
            "ceiling_bytes_per_s": ceilings.bandwidth,
            "flop_per_byte": table.intensity,
            "ridge_flop_per_byte": table.ridge,
        },
        fix="move fewer bytes: fuse element-wise operators by compiling, halve them by a lower precision, drop copies",
        where=_where(table.layers),
        confidence=1.0 if share >= ROOFLINE_SHARE else 0.5,
    )


def _where(layers: tuple[Layer, ...]) -> Place | None:
    """The layer that moves most, if layers were seen to move anything."""
    if not layers:
        return None
    heaviest = max(layers, key=lambda layer: layer.bytes)
    return heaviest.where or Place(module=heaviest.module)


def _case(*, flops: float, moved: float) -> tuple[StepTimeline, LayerTable, Ceilings]:
    """A step of a tenth of a second on a machine of 100 GFLOP/s and 10 GB/s."""
    timeline = StepTimeline(steps=10, step=Split(running=0.1), phases={"forward": Split(running=0.1)})
    table = LayerTable(
        layers=(),
        forward_flops=flops / 3,
        step_flops=flops,
        step_bytes=moved,
        dtype="float32",
        ridge=10.0,
        compute_seconds=0.1,
    )
    return timeline, table, Ceilings(environment="", threads=2, matmul={"float32": 1e11}, bandwidth=1e10)


_CROWDED = ThreadUse(
    torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=0, waiting_share=0.8, others_share=0.9
)

# Three fifths of the best rate; a twentieth of it while spinning threads stretch the step.
SICK = (_case(flops=1e8, moved=6e8), (*_case(flops=1e7, moved=5e7), _CROWDED))
# Above the ridge; a step that moves little.
WELL = (_case(flops=8e9, moved=6e8), _case(flops=1e7, moved=5e7))
