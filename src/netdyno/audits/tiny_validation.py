"""The evaluation has so few samples that its score can hardly tell one model from another.

Looks for:  an evaluation split of few samples although there are many to learn from.
Matters:    the score moves in large steps and by chance: whoever picks the best of several models picks luck.
Try:        hold out more, or evaluate by cross-validation, and say the interval with the score.
Not this:   collections that are small altogether, of which a fair part was held out.
"""

from dataclasses import replace

import numpy as np

from netdyno.audits._base import Part, Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding
from netdyno.stats.shares import counted_share

# Of a hundred samples a score of 90 % has an interval of about six points either way: the size of most gains that are claimed.
FEW = 100
# Who has twenty times as many samples can spare some. Below ten, nothing is a score.
SPARED, NONE = 20, 10
USUAL = 0.9  # the score that the interval is told for


@audit()
def tiny_validation(view: View) -> Finding | None:
    """Too few samples to judge by."""
    if not view.others:
        raise Skip("there is no split to judge on")
    part = min(view.others, key=lambda each: each.total)
    if part.total >= FEW or (part.total >= NONE and view.train.total < SPARED * part.total):
        return None
    score = counted_share(round(USUAL * part.total), part.total)
    return wrong(
        f"`{part.name}` has {part.total} samples beside {view.train.total} in `train`: one sample is {1 / part.total:.1%} of the score, and "
        f"a score of {USUAL:.0%} may be anything from {score.low:.0%} to {score.high:.0%}",
        fix="hold out a hundred samples or more, or cross-validate, and tell the interval with the score",
        because={"samples": float(part.total), "step": 1 / part.total, "low": score.low, "high": score.high},
        layer="generalisation",
    )


def _few(part: Part, many: int = 20) -> Part:
    assert part.y is not None
    return replace(part, x=part.x[:many], y=part.y[:many], indices=np.arange(many), total=many)


SICK = (
    lambda: specimen("table", sizes=(1200, 60), val=_few),
    lambda: specimen("table", val=lambda part: _few(part, 8)),
)
# A good part of little; a hundred and twenty.
WELL = (lambda: specimen("table", sizes=(120, 30)), lambda: specimen("table"))
