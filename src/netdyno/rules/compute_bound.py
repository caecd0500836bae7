"""Arithmetic is the limit: the step runs near the machine's best matrix rate.

Looks for:  operations that at the best rate of their precision would still take a quarter of the step, and
            more than moving their bytes would.
Matters:    the code is already good; only fewer or cheaper operations make it faster.
Try:        a lower precision where this processor computes it faster, a compiled model, fewer operations.
Not this:   operators that wait for memory (see `memory-bandwidth-bound`), or many small ones whose call
            costs more than their work (see `python-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer, LayerTable, Place, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import ROOFLINE_SHARE, SPUN_SHARE, rule, spinning

WORK = ("forward", "loss", "backward", "optimizer")


@rule(suggests=("bf16-autocast", "channels-last", "compile-model"))
def compute_bound(
    timeline: StepTimeline, table: LayerTable, ceilings: Ceilings, threads: ThreadUse | None
) -> Finding | None:
    peak = ceilings.matmul.get(table.dtype, 0.0)
    if not peak or not table.compute_seconds or table.intensity < table.ridge:
        return None
    work = timeline.share(*WORK)
    rate = table.step_flops / table.compute_seconds
    share = work * min(1.0, rate / peak)
    if share < (SPUN_SHARE if spinning(threads) else ROOFLINE_SHARE):
        return None
    fastest, best = max(ceilings.matmul.items(), key=lambda item: item[1])
    return Finding(
        says=f"arithmetic alone needs {share:.0%} of a step: {rate / 1e9:.0f} of at most {peak / 1e9:.0f} GFLOP/s in {table.dtype}",
        layer="compute",
        # At best every operation runs at the best rate of any precision, and nothing else takes time.
        saves=Saving(low=0.0, high=work * max(0.0, 1 - rate / best)),
        because={
            "share_of_step": share,
            "flops_per_s": rate,
            "ceiling_flops_per_s": peak,
            "best_flops_per_s": best,
            "flop_per_byte": table.intensity,
            "ridge_flop_per_byte": table.ridge,
        },
        fix=_cure(fastest, best / peak, table.dtype),
        where=_where(table.layers),
        confidence=1.0 if share >= ROOFLINE_SHARE else 0.5,
    )


def _where(layers: tuple[Layer, ...]) -> Place | None:
    """The layer that computes most, if layers were seen to compute anything."""
    if not layers:
        return None
    heaviest = max(layers, key=lambda layer: layer.flops)
    return heaviest.where or Place(module=heaviest.module)


def _cure(fastest: str, factor: float, dtype: str) -> str:
    # A tenth more is within what two runs of one product differ by.
    if fastest != dtype and factor > 1.1:
        return f"this machine multiplies {fastest} {factor:.1f} times as fast as {dtype}: try autocast to {fastest}"
    return f"no other precision is faster than {dtype} here: use fewer operations (a smaller layer, fewer channels)"


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
    return (
        timeline,
        table,
        Ceilings(environment="", threads=2, matmul={"float32": 1e11, "bfloat16": 4e11}, bandwidth=1e10),
    )


_CROWDED = ThreadUse(
    torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=0, waiting_share=0.8, others_share=0.9
)

# Four fifths of the best rate; a tenth of it while spinning threads stretch the step.
SICK = (_case(flops=8e9, moved=1e8), (*_case(flops=1e9, moved=1e7), _CROWDED))
# Below the ridge; far from the ceiling on a quiet machine.
WELL = (_case(flops=8e8, moved=8e8), _case(flops=1e9, moved=1e7))
