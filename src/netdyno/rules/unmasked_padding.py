"""What the model says of a sequence depends on how much padding stands behind it.

Looks for:  outputs for a row that change when padding at its end is taken away or added, in evaluation mode, while batches
            come in different lengths.
Matters:    the same text gets another answer beside a longer one.
Try:        a mask for padding in attention and in means; packed sequences.
Not this:   batches that all have one length; masks and lengths that are passed.
"""

from netdyno.records.base import Place
from netdyno.records.calls import ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import LIKELY, NOTHING, probe

MOVES = 0.1  # of the outputs' spread: a decision near the middle changes


@rule(stage="use")
def unmasked_padding(probe: ModelProbe) -> Finding | None:
    if (probe.padding or 0.0) < MOVES or probe.lengths < 2:
        return None
    return Finding(
        says=f"outputs of `{probe.model}` change by up to {probe.padding:.2g} standard deviations with the padding (id {probe.pad}) behind a sequence",
        layer="inference",
        saves=NOTHING,
        because={"padding": probe.padding or 0.0, "lengths": float(probe.lengths)},
        fix="mask the padding in attention (`key_padding_mask`) and in means, or pack the sequences",
        where=Place(module=probe.model),
        confidence=LIKELY,
    )


SICK = ((probe(padding=1.1, pad=0, lengths=4),),)
# Masked; one length only; no padding to ask with.
WELL = ((probe(padding=1e-6, pad=0, lengths=4),), (probe(padding=1.1, pad=0, lengths=1),), (probe(lengths=4),))
