"""The attention mask hides what should be seen, and shows what should be hidden.

Looks for:  outputs of a sequence model that change with later ids, and not with earlier ones.
Matters:    a position sees only what comes after it: what it should predict, and nothing to predict it from.
Try:        turn the mask around (`~mask`); in `masked_fill` True hides, in `scaled_dot_product_attention` True shows.
Not this:   causal models, models that see both sides, recurrent models that run backwards on purpose.
"""

from netdyno.records.base import Place
from netdyno.records.calls import ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, FELT, NOTHING, probe
from netdyno.rules._remedies import remedy


@rule(stage="structure")
def inverted_mask(probe: ModelProbe) -> Finding | None:
    if (
        probe.recurrent
        or not probe.attention
        or (probe.later or 0.0) < FELT
        or probe.earlier is None
        or probe.earlier >= FELT
    ):
        return None
    return Finding(
        says=f"attention sees only what comes later: outputs change by {probe.later:.2g} standard deviations with later ids, by {probe.earlier:.1g} with earlier ones",
        layer="optimisation",
        saves=NOTHING,
        because={"later": probe.later or 0.0, "earlier": probe.earlier},
        fix="turn the mask around: `masked_fill` hides where it is True, `scaled_dot_product_attention` shows there",
        where=Place(module=probe.model),
        confidence=CERTAIN,
        explains=("seen-target",),
        remedies=remedy("invert-mask"),
    )


SICK = ((probe(attention=True, later=1.3, earlier=0.0),),)
# Causal; both sides; not asked.
WELL = (
    (probe(attention=True, later=0.0, earlier=1.0),),
    (probe(attention=True, later=1.0, earlier=1.0),),
    (probe(attention=True),),
)
