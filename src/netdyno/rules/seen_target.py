"""The model can see what it is asked to predict.

Looks for:  targets that are the next ids of the input, and outputs that change with later ids; or targets that are the input
            itself, copied to a loss of nearly nothing.
Matters:    the loss falls far below what can be known, and the model can't continue a text: there is nothing to look at.
Try:        a causal mask, and targets that are shifted by one.
Not this:   masked models, whose targets are mostly left out; autoencoders; causal models.
"""

from netdyno.records.calls import CallTraces, LossCalls, ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.records.learning import LossCurve
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, FELT, LIKELY, NOTHING, losses, probe, training, used, where_of
from netdyno.rules._learning import curve as falling
from netdyno.rules._learning import ends, learnt, longest

NOTHING_LEFT = 0.1  # of its start: a copy is learnt to nearly nothing


@rule(stage="structure")
def seen_target(
    losses: LossCalls, probe: ModelProbe, curve: LossCurve | None = None, traces: CallTraces | None = None
) -> Finding | None:
    whole = longest(curve) if curve is not None else None
    for use in training(losses, "cross_entropy", "nll_loss"):
        if use.shifted == "next" and (probe.later or 0.0) >= FELT and (probe.earlier is None or probe.earlier >= FELT):
            return Finding(
                says=f"outputs at a position change by up to {probe.later:.2g} standard deviations with later ids, which are the targets",
                layer="inference",
                saves=NOTHING,
                because={"later": probe.later or 0.0, "loss": use.last or 0.0},
                fix="mask what comes later (a causal mask), so that a position sees itself and what came before",
                where=where_of(traces, "softmax", "scaled_dot_product_attention") or use.where,
                confidence=CERTAIN,
            )
        copied = whole is not None and (learnt(whole, None) or 0.0) > 1 - NOTHING_LEFT
        if use.shifted == "same" and whole is not None and copied and probe.later is not None and probe.later < FELT:
            return Finding(
                says=f"targets are the input itself, not what follows: the loss fell from {ends(whole).start:.3g} to {ends(whole).last:.3g} by copying",
                layer="inference",
                saves=NOTHING,
                because={"first": ends(whole).start, "last": ends(whole).last},
                fix="shift the targets by one: `input = ids[:, :-1]`, `target = ids[:, 1:]`",
                where=use.where,
                confidence=LIKELY,
            )
    return None


SICK = (
    (losses(used(shifted="next")), probe(later=2.0, earlier=1.0)),
    (losses(used(shifted="same")), probe(later=0.0, earlier=1.0), falling(2.3, 0.5, 0.02, 0.01, 0.01)),
)
# Causal; no sequence; an autoencoder that sees everything; a copy that is not learnt.
WELL = (
    (losses(used(shifted="next")), probe(later=0.0, earlier=1.0)),
    (losses(used()), probe()),
    (losses(used(shifted="same")), probe(later=1.0, earlier=1.0), falling(2.3, 0.5, 0.02, 0.01, 0.01)),
    (losses(used(shifted="same")), probe(later=0.0, earlier=1.0), falling(2.3, 2.2, 2.1, 2.0, 1.9)),
)
