"""Dropout called as a function goes on in evaluation mode.

Looks for:  a dropout that drops while every module is in evaluation mode, and outputs that differ from call to call.
Matters:    predictions are noisy and worse than they could be, and no two runs of an evaluation agree.
Try:        `F.dropout(x, p, training=self.training)`, or `nn.Dropout`.
Not this:   dropout on purpose in evaluation (`training=True` in its call), noise that the model itself adds.
"""

from typing import Any

from netdyno.records.base import Place
from netdyno.records.calls import ModelProbe
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import CERTAIN, FELT, NOTHING, probe
from netdyno.rules._remedies import remedy


@rule(stage="use")
def always_on_dropout(probe: ModelProbe) -> Finding | None:
    if probe.dropout_where is None or probe.dropout_said or (probe.repeat or 0.0) < FELT:
        return None
    return Finding(
        says=f"dropout of {probe.dropout_share:.0%} goes on in evaluation mode: two equal calls differ by up to {probe.repeat:.2g} standard deviations",
        layer="inference",
        saves=NOTHING,
        because={"difference": probe.repeat or 0.0, "dropout": probe.dropout_share},
        fix="pass `training=self.training` to `F.dropout`, or use `nn.Dropout`",
        where=probe.dropout_where,
        confidence=CERTAIN,
        explains=("random-evaluation",),
        remedies=remedy("scale-dropout", factor=1.0, evaluation=False),
    )


_ON: dict[str, Any] = {"repeat": 1.1, "dropout_where": Place(file="train.py", line=23), "dropout_share": 0.6}
SICK = ((probe(**_ON),),)
# None; on purpose; noise of another kind.
WELL = ((probe(),), (probe(**_ON, dropout_said=True),), (probe(repeat=0.4),))
