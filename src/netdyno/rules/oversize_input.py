"""Images are blown up before the model sees them: it computes the same pixel many times.

Looks for:  images that consist of squares of equal pixels, or an interpolation of the data to twice their size and more.
Matters:    convolutions cost as much as there are pixels, and copies of a pixel tell nothing new.
Try:        images at the size they were taken, with a first layer that fits them.
Not this:   a model that was trained for larger images and is only tuned, which needs them; so this is always a suspicion.
"""

from netdyno.records.base import Place
from netdyno.records.calls import DATA, CallTraces
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import StepTimeline
from netdyno.records.measured import Split
from netdyno.records.samples import Grain
from netdyno.rules._base import rule
from netdyno.rules._calls import call, first, traced

LOOKS = 2
WORK = ("forward", "loss", "backward")
GROWN = 2.0
# A step that hardly computes has nothing to win.
WORTH_A_WORD = 0.3


@rule(stage="speed")
def oversize_input(timeline: StepTimeline, grain: Grain | None, traces: CallTraces | None) -> Finding | None:
    found = _squares(grain) or _interpolated(traces)
    if found is None:
        return None
    side, says, where = found
    share = timeline.share(*WORK) * (1 - 1 / side**2)
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"{says}: {side**2:.0f} times as many pixels as there is information",
        layer="compute",
        saves=Saving(low=0.0, high=share),
        because={"side": side, "pixels": side**2, "share": share},
        fix="give the images to the model at the size they were taken",
        where=where,
        confidence=0.6,
    )


def _squares(grain: Grain | None) -> tuple[float, str, Place | None] | None:
    if grain is None or grain.looks < LOOKS or grain.block < GROWN:
        return None
    says = f"images of {grain.height} by {grain.width} pixels consist of squares of {grain.block} by {grain.block} equal ones"
    return float(grain.block), says, grain.where


def _interpolated(traces: CallTraces | None) -> tuple[float, str, Place | None] | None:
    trace = first(traces)
    for each in trace.calls if trace is not None else ():
        if each.name not in ("interpolate", "upsample") or each.inputs[:1] != (DATA,) or not each.shapes:
            continue
        before, after = each.shapes[0], each.shape
        if len(before) == len(after) == 4 and min(after[2] / before[2], after[3] / before[3]) >= GROWN:
            side = (after[2] * after[3] / before[2] / before[3]) ** 0.5
            says = f"images of {before[2]} by {before[3]} pixels are interpolated to {after[2]} by {after[3]}"
            return side, says, each.where
    return None


_STEP = StepTimeline(
    steps=20,
    step=Split(running=0.031),
    phases={"forward": Split(running=0.01), "backward": Split(running=0.02), "optimizer": Split(running=0.001)},
)
_FINE = Grain(looks=4, block=1, height=32, width=32)


def _resized(small: int, large: int, made_by: int = DATA) -> CallTraces:
    resized = call("interpolate", made_by, shape=(8, 1, large, large), shapes=((8, 1, small, small),))
    return traced(call("conv2d", -2, -1), resized, call("cross_entropy", 1, -2, shape=()))


SICK = (
    (_STEP, Grain(looks=4, block=4, height=32, width=32), None),
    (_STEP, _FINE, _resized(8, 32)),
)
# Fine images; made half as large again; a decoder that enlarges what the model made; one look.
WELL = (
    (_STEP, _FINE, None),
    (_STEP, _FINE, _resized(24, 32)),
    (_STEP, _FINE, _resized(8, 32, made_by=0)),
    (_STEP, Grain(looks=1, block=4, height=32, width=32), None),
)
