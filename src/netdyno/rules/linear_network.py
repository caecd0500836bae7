"""Layers follow each other with nothing between that bends: together they are one linear layer.

Looks for:  a trained model of two or more layers whose answer to a + b - c is the sum of its answers.
Matters:    it can draw straight lines only, however many layers it has.
Try:        a ReLU (or another activation) between the layers.
Not this:   a single linear layer; a bottleneck on purpose (a factorised layer, a linear code).
"""

from netdyno.records.base import Place
from netdyno.records.calls import ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, probe
from netdyno.rules._remedies import remedy

STRAIGHT = 1e-3  # of the outputs' spread: rounding of a deep sum, and nothing that bends


@rule(stage="structure")
def linear_network(probe: ModelProbe) -> Finding | None:
    if probe.linear is None or probe.linear > STRAIGHT or probe.weighted < 2 or probe.narrow:
        return None
    return Finding(
        says=f"the {probe.weighted} layers of `{probe.model}` are together one linear function: nothing between them bends",
        layer="optimisation",
        saves=NOTHING,
        because={"layers": float(probe.weighted), "deviation": probe.linear},
        fix="put an activation (ReLU, GELU) between the layers",
        where=Place(module=probe.model),
        confidence=LIKELY,
        remedies=remedy("bend-between-layers"),
    )


SICK = ((probe(linear=2e-6),),)
# It bends; one layer; a bottleneck on purpose; it could not be asked.
WELL = ((probe(),), (probe(linear=2e-6, weighted=1),), (probe(linear=2e-6, narrow=True),), (probe(linear=None),))
