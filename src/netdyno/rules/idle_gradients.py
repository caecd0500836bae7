"""Gradients are computed for weights that no optimizer moves.

Looks for:  weights in modules that are in evaluation mode, or half of all weights and more, that get a gradient in each update
            and belong to no optimizer.
Matters:    the backward pass through them, and what the forward pass keeps for it, is for nothing.
Try:        run them under `torch.no_grad()`, or say `requires_grad_(False)`; then what they compute can even be kept.
Not this:   weights that are to be trained and were forgotten (see what learns nothing), a critic that a generator's loss
            passes through, updates by hand.
"""

from netdyno.records.base import Place
from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import StepTimeline
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for
# Weights that were forgotten are a layer or two; a part that was left out on purpose is the larger one.
LARGER = 0.5


@rule(suggests=())
def idle_gradients(waste: Waste, timeline: StepTimeline) -> Finding | None:
    # The share of weights is no share of time: what is idle lies below what is trained, and costs at most the backward pass.
    share = timeline.share("backward")
    if not waste.idle_count or share < WORTH_A_WORD:
        return None
    if not waste.idle_resting and waste.idle_share < LARGER:
        return None
    return Finding(
        says=f"{waste.idle_count} weights ({waste.idle_share:.0%} of all numbers, `{waste.idle_first}` first) get gradients in every"
        f" update, and no optimizer moves them{', nor are they in training mode' if waste.idle_resting else ''}",
        layer="compute",
        saves=Saving(low=share / 2 if waste.idle_resting else 0.0, high=share),
        because={"weights": float(waste.idle_count), "share": waste.idle_share, "backward_share": share},
        fix="run the frozen part under `torch.no_grad()`, or call `requires_grad_(False)` on it",
        where=Place(module=waste.idle_first) if waste.idle_first else None,
        # In training mode they may have been meant to learn.
        confidence=0.85 if waste.idle_resting else 0.5,
        explains=("compute-bound", "python-bound"),
        remedies=remedy("freeze-the-idle"),
    )


def _case(count: int, share: float, *, resting: bool, backward: float = 0.01) -> tuple[Waste, StepTimeline]:
    phases = {"forward": Split(running=0.005), "backward": Split(running=backward)}
    waste = Waste(
        updates=100,
        cores=2,
        threads=1,
        idle_count=count,
        idle_share=share,
        idle_first="Sequential.0.weight",
        idle_resting=resting,
    )
    return waste, StepTimeline(steps=100, step=Split(running=0.005 + backward), phases=phases)


# A backbone in evaluation mode; one in training mode (a suspicion).
SICK = (_case(6, 0.9, resting=True), _case(6, 0.9, resting=False))
# None; a forgotten head; no time.
WELL = (_case(0, 0.0, resting=False), _case(2, 0.1, resting=False), _case(6, 0.9, resting=True, backward=0.0001))
