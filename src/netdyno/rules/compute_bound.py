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
from netdyno.records.evidence import LayerTable, StepTimeline, ThreadUse
from netdyno.rules._base import rule
from netdyno.rules._roofline import CROWDED, heaviest, limit, specimen

# A ceiling is the best of several products, and a longer one may beat it by a few per cent.
IMPOSSIBLE = 1.1


@rule(suggests=("bf16-autocast", "channels-last", "compile-model"), stage="nature")
def compute_bound(
    timeline: StepTimeline, table: LayerTable, ceilings: Ceilings, threads: ThreadUse | None
) -> Finding | None:
    peak = ceilings.matmul.get(table.dtype, 0.0)
    reached = limit(table.step_flops, peak, timeline, table, threads)
    if reached is None or table.intensity < table.ridge:
        return None
    if reached.rate > IMPOSSIBLE * peak:  # not all that was counted was done, or not in this precision
        return None
    fastest, best = max(ceilings.matmul.items(), key=lambda item: item[1])
    return Finding(
        says=f"arithmetic alone needs {reached.share:.0%} of a step: {reached.rate / 1e9:.0f} of at most {peak / 1e9:.0f} GFLOP/s in {table.dtype}",
        layer="compute",
        # At best every operation runs at the best rate of any precision, and nothing else takes time.
        saves=Saving(low=0.0, high=reached.work * max(0.0, 1 - reached.rate / best)),
        because={
            "share_of_step": reached.share,
            "flops_per_s": reached.rate,
            "ceiling_flops_per_s": peak,
            "best_flops_per_s": best,
            "flop_per_byte": table.intensity,
            "ridge_flop_per_byte": table.ridge,
        },
        fix=_cure(fastest, best / peak, table.dtype),
        where=heaviest(table.layers, lambda layer: layer.flops),
        confidence=reached.confidence,
    )


def _cure(fastest: str, factor: float, dtype: str) -> str:
    # A tenth more is within what two runs of one product differ by.
    if fastest != dtype and factor > 1.1:
        return f"this machine multiplies {fastest} {factor:.1f} times as fast as {dtype}: try autocast to {fastest}"
    return f"no other precision is faster than {dtype} here: use fewer operations (a smaller layer, fewer channels)"


# Four fifths of the best rate; a tenth of it while spinning threads stretch the step.
SICK = (specimen(flops=8e9, moved=1e8), (*specimen(flops=1e9, moved=1e7), CROWDED))
# Below the ridge; far from the ceiling on a quiet machine; a product with a sparse matrix, counted as a dense one.
WELL = (specimen(flops=8e8, moved=8e8), specimen(flops=1e9, moved=1e7), specimen(flops=2e10, moved=1e8))
