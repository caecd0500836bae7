"""A sample that goes into the model holds a value that is no number, and the loss is lost with it.

Looks for:  the first loss that is no number, and NaN or infinity in the very batch it was made of.
Matters:    one such value makes the loss of its batch NaN, and one step with that makes every weight NaN.
Try:        drop or repair the sample; check data once before training.
Not this:   weights that grew first; a loss that recovers (a gradient scaler leaves such steps out).
"""

from netdyno.records.base import Place
from netdyno.records.calls import NonFinite
from netdyno.records.diagnosis import Finding
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, NOTHING
from netdyno.rules._remedies import remedy


@rule(stage="data")
def non_finite_input(broken: NonFinite, samples: Samples | None = None) -> Finding | None:
    if (
        broken.stage != "input"
        or not broken.persists
        or (samples is not None and samples.bad_rows and samples.losses_lost)
    ):
        return None  # where the loader was watched, another rule names the sample by its place in the data set
    feature = f", feature {broken.feature[0]}" if broken.feature else ""
    what = "target" if broken.call == "target" else "input"
    return Finding(
        says=f"row {broken.sample}{feature} of the {what} of update {broken.update} holds {broken.kind_of or 'no number'}, and the loss is lost from there on",
        layer="data",
        saves=NOTHING,
        because={"update": float(broken.update), "rows": float(broken.samples)},
        fix="drop or repair that sample, and check the data set for values that are no numbers",
        where=Place(file=broken.where.file, line=broken.where.line, sample=broken.sample, step=broken.update)
        if broken.where
        else None,
        confidence=CERTAIN,
        explains=("non-finite-forward", "non-finite-backward"),
        remedies=remedy("repair-inputs"),
    )


_BAD = NonFinite(
    stage="input",
    update=3,
    sample=13,
    feature=(3,),
    samples=1,
    kind_of="nan",
    call="0",
    where=Place(file="train.py", line=8),
)
SICK = ((_BAD,),)
# Elsewhere; it recovers.
WELL = ((NonFinite(stage="forward", update=3),), (NonFinite(stage="input", update=3, persists=False),))
