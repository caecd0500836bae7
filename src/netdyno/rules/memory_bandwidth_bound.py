"""Moving bytes is the limit: the layers wait for memory, not for arithmetic.

Looks for:  layers below the ridge of the roofline that move bytes at two fifths of the memory's best rate
            or faster and together take a fifth of the step.
Matters:    a faster multiplier changes nothing; fewer bytes do.
Try:        a lower precision (half the bytes), a compiled model (fused layers keep values in registers),
            another memory layout, in-place activations.
Not this:   batches copied to a device (see `copy-bound`), or slow layers that use neither memory nor
            arithmetic well (see `python-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer, LayerTable, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.20  # below a fifth of the step, even free memory traffic wins less than 1.25x
NEAR = 0.4  # a copy counts its bytes once but allocates its answer: it shows 0.4 to 0.8 of the triad rate


@rule(suggests=("bf16-autocast", "compile-model", "channels-last", "glibc-arena-reuse"))
def memory_bandwidth_bound(timeline: StepTimeline, table: LayerTable, ceilings: Ceilings) -> Finding | None:
    work = timeline.share("forward", "loss", "backward")
    whole = sum(layer.seconds for layer in table.layers)
    limited = [layer for layer in table.layers if near_the_ceiling(layer, table, ceilings)]
    seconds = sum(layer.seconds for layer in limited)
    share = work * seconds / whole if whole else 0.0
    if share < WORTH_A_WORD:
        return None
    rate = sum(layer.bytes for layer in limited) / seconds
    intensity = sum(layer.flops for layer in limited) / sum(layer.bytes for layer in limited)
    longest = max(limited, key=lambda layer: layer.seconds)
    return Finding(
        says=f"moving bytes takes {share:.0%} of a step: {intensity:.2g} FLOP per byte where this machine balances at {table.ridge:.0f}",
        layer="memory",
        # At best no byte moves more than the arithmetic alone would hide.
        saves=Saving(low=0.0, high=share * (1 - intensity / table.ridge)),
        because={
            "share_of_step": share,
            "bytes_per_s": rate,
            "ceiling_bytes_per_s": ceilings.bandwidth,
            "flop_per_byte": intensity,
            "ridge_flop_per_byte": table.ridge,
        },
        fix="move fewer bytes: fuse elementwise layers by compiling, halve them by a lower precision, or drop copies",
        where=longest.where or Place(module=longest.module),
    )


def near_the_ceiling(layer: Layer, table: LayerTable, ceilings: Ceilings) -> bool:
    """True for a layer that memory limits: below the ridge, and moving bytes near the best rate."""
    if not layer.seconds or layer.intensity >= table.ridge:
        return False
    return layer.bytes / layer.seconds >= NEAR * ceilings.bandwidth


def _case(*, intensity: float, rate: float) -> tuple[StepTimeline, LayerTable, Ceilings]:
    timeline = StepTimeline(steps=10, step=Split(running=0.1), phases={"forward": Split(running=0.1)})
    layer = Layer(
        module="mix", kind="Copy", flops=rate * 0.03 * intensity, bytes=rate * 0.03, seconds=0.03, intensity=intensity
    )
    table = LayerTable(
        layers=(layer,),
        forward_flops=layer.flops,
        step_flops=3 * layer.flops,
        step_bytes=3 * layer.bytes,
        dtype="float32",
        ridge=10.0,
        compute_seconds=0.1,
    )
    return timeline, table, Ceilings(environment="", threads=2, matmul={"float32": 1e11}, bandwidth=1e10)


SICK = (_case(intensity=0.25, rate=8e9),)
# Above the ridge; below it but slow for another reason.
WELL = (_case(intensity=50.0, rate=8e9), _case(intensity=0.25, rate=5e8))
