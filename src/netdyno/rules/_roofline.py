"""What the two rules of the roofline share: which side of the ridge a step is on, and how much of it the limit rules."""

from collections.abc import Callable
from typing import NamedTuple

from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer, LayerTable, Place, StepTimeline, ThreadUse
from netdyno.records.measured import Split
from netdyno.rules._base import spinning

WORK = ("forward", "loss", "backward", "optimizer")

# What a ceiling alone accounts for is a lower bound. Real products reach half to nine tenths of the best one; an
# element-wise operator a third to two thirds, since fresh memory for its answer costs traffic that no byte count has.
# From a quarter of a step on, such a limit therefore rules most of it.
ROOFLINE_SHARE = 0.25
# While threads spin at barriers for others that have no core, running time was seen to grow tenfold.
SPUN_SHARE = 0.04


class Limit(NamedTuple):
    """A ceiling against a step: the rate that was reached, the part of the step that is work, and what the ceiling rules."""

    rate: float
    work: float
    share: float

    @property
    def confidence(self) -> float:
        """Below the share that rules a step it was spinning threads that made the limit look small: a suspicion."""
        return 1.0 if self.share >= ROOFLINE_SHARE else 0.5


def limit(
    amount: float, ceiling: float, timeline: StepTimeline, table: LayerTable, threads: ThreadUse | None
) -> Limit | None:
    """What a ceiling of `ceiling` a second rules of a step that needs `amount`; None when that is too little to matter."""
    if not ceiling or not table.compute_seconds:
        return None
    work = timeline.share(*WORK)
    rate = amount / table.compute_seconds
    # Above 1 when part of the bytes come from a cache: then memory is not all, but bytes still are the limit.
    share = work * min(1.0, rate / ceiling)
    least = SPUN_SHARE if spinning(threads) else ROOFLINE_SHARE
    return Limit(rate, work, share) if share >= least else None


def heaviest(layers: tuple[Layer, ...], by: Callable[[Layer], float]) -> Place | None:
    """Where the layer is that has most of it, if layers were seen to do anything."""
    if not layers:
        return None
    layer = max(layers, key=by)
    return layer.where or Place(module=layer.module)


def specimen(*, flops: float, moved: float) -> tuple[StepTimeline, LayerTable, Ceilings]:
    """A step of a tenth of a second on a machine of 100 GFLOP/s, four times that in bfloat16, and 10 GB/s."""
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


CROWDED = ThreadUse(
    torch_threads=2, interop_threads=1, cores=2, workers=0, worker_threads=0, waiting_share=0.8, others_share=0.9
)
