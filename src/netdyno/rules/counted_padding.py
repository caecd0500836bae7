"""The padding at the ends of sequences is learnt as if it were text.

Looks for:  targets that end in runs of one id which occurs nowhere else, a large share of all, and are not left out.
Matters:    the loss falls because padding is easy to guess; the rest is learnt less.
Try:        `ignore_index` with the id of the padding.
Not this:   padding that the loss leaves out, an end mark that comes once, ids that are simply frequent.
"""

from netdyno.records.calls import LossCalls
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import GUESS, LIKELY, NOTHING, losses, training, used
from netdyno.rules._remedies import remedy_at

LARGE, SOME = 0.3, 0.1  # of all targets: from a third on it is most of what is easy


@rule(stage="loss")
def counted_padding(losses: LossCalls) -> Finding | None:
    for use in training(losses, "cross_entropy", "nll_loss"):
        if use.padding < SOME or use.pad is None or use.pad == use.ignores:
            continue
        return Finding(
            says=f"{use.padding:.0%} of the targets are padding (id {use.pad}) and are counted in {use.name}",
            layer="data",
            saves=NOTHING,
            because={"padding": use.padding, "id": float(use.pad)},
            fix=f"pass `ignore_index={use.pad}` to the loss",
            where=use.where,
            confidence=LIKELY if use.padding >= LARGE else GUESS,
            remedies=remedy_at(use.where, "change-call", call=use.name, ignore_index=use.pad),
        )
    return None


SICK = ((losses(used(padding=0.55, pad=0, ignores=-100)),), (losses(used(padding=0.15, pad=0, ignores=-100)),))
# Left out; none; an end mark.
WELL = (
    (losses(used(padding=0.55, pad=0, ignores=0)),),
    (losses(used()),),
    (losses(used(padding=0.04, pad=2, ignores=-100)),),
)
