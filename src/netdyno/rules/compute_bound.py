"""Arithmetic is the limit: the layers run near the machine's best matrix rate.

Looks for:  layers at or above the ridge of the roofline that reach half of the ceiling or more and
            together take a fifth of the step.
Matters:    the code is already good; only fewer or cheaper operations make it faster.
Try:        a lower precision where this processor computes it faster, a compiled model, fewer operations.
Not this:   layers that wait for memory (see `memory-bandwidth-bound`), or many small ones whose launch
            costs more than their work (see `python-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer, LayerTable, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

WORTH_A_WORD = 0.20  # below a fifth of the step, even an infinitely fast multiplier wins less than 1.25x
GOOD = 0.5  # real layers reach half to nine tenths of the best product; below half something else limits them


@rule(suggests=("bf16-autocast", "channels-last", "compile-model"))
def compute_bound(timeline: StepTimeline, table: LayerTable, ceilings: Ceilings) -> Finding | None:
    work = timeline.share("forward", "loss", "backward")
    whole = sum(layer.seconds for layer in table.layers)
    limited = [layer for layer in table.layers if at_the_ceiling(layer, table, ceilings)]
    seconds = sum(layer.seconds for layer in limited)
    share = work * seconds / whole if whole else 0.0
    if share < WORTH_A_WORD:
        return None
    rate = sum(layer.flops for layer in limited) / seconds
    ceiling = ceilings.matmul[table.dtype]
    best, fastest = max((rate, dtype) for dtype, rate in ceilings.matmul.items())
    longest = max(limited, key=lambda layer: layer.seconds)
    return Finding(
        says=f"arithmetic takes {share:.0%} of a step, at {rate / 1e9:.0f} of at most {ceiling / 1e9:.0f} GFLOP/s in {table.dtype}",
        layer="compute",
        # At best every operation runs at the best rate of any precision: the rest of the time would be won.
        saves=Saving(low=0.0, high=share * max(0.0, 1 - rate / best)),
        because={
            "share_of_step": share,
            "flops_per_s": rate,
            "ceiling_flops_per_s": ceiling,
            "best_flops_per_s": best,
            "ridge_flop_per_byte": table.ridge,
        },
        fix=_cure(fastest, best / ceiling, table.dtype),
        where=longest.where or Place(module=longest.module),
    )


def at_the_ceiling(layer: Layer, table: LayerTable, ceilings: Ceilings) -> bool:
    """True for a layer that the multiplier limits: above the ridge, and at half its rate or more."""
    if not layer.seconds or layer.intensity < table.ridge:
        return False
    return layer.flops / layer.seconds >= GOOD * ceilings.matmul[table.dtype]


def _cure(fastest: str, factor: float, dtype: str) -> str:
    # A tenth more is within what two runs of one product differ by.
    if fastest != dtype and factor > 1.1:
        return f"this machine multiplies {fastest} {factor:.1f} times as fast as {dtype}: try autocast to {fastest}"
    return f"no other precision is faster than {dtype} here: use fewer operations (a smaller layer, fewer channels)"


def _case(*, intensity: float, rate: float) -> tuple[StepTimeline, LayerTable, Ceilings]:
    timeline = StepTimeline(steps=10, step=Split(running=0.1), phases={"forward": Split(running=0.1)})
    layer = Layer(
        module="hidden",
        kind="Linear",
        flops=rate * 0.03,
        bytes=rate * 0.03 / intensity,
        seconds=0.03,
        intensity=intensity,
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
    return (
        timeline,
        table,
        Ceilings(environment="", threads=2, matmul={"float32": 1e11, "bfloat16": 4e11}, bandwidth=1e10),
    )


SICK = (_case(intensity=200.0, rate=8e10),)
# Below the ridge; above the ridge but far from the ceiling.
WELL = (_case(intensity=2.0, rate=8e10), _case(intensity=200.0, rate=5e9))
