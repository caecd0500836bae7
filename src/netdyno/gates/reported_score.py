"""The module does not reach the score that training reported for it on the same validation data.

Looks for:  a mean quality on the validation data below `Release.score` by more than rounding, or more than chance where only a part is scored.
Matters:    an older checkpoint, the last weights instead of the best or the averaged ones, a head that was not loaded, inputs
            prepared otherwise: each costs a few points that no other look shows (fault bench P10, T13).
Try:        the hash of the file that is loaded against the one that training saved last; the best, or the averaged, weights.
Not this:   a score that was given with two digits.
"""

import torch
from torch import nn

from netdyno.gates._base import Candidate, failed, item, passed, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck
from netdyno.stats.spread import t_interval

# A score written with two digits is off by half a point; another machine flips a row or two.
ROUNDING, FLIPS = 0.01, 2
LEVEL = 0.99


@item
def reported_score(candidate: Candidate) -> GateCheck:
    score, found = candidate.release.score, candidate.scored
    if score is None:
        return unseen("`score` is not declared: the mean quality on the validation data as training reported it")
    if found is None:
        return unseen("it takes validation data with targets")
    mean, rows = float(found.right.mean()), len(found.right)
    because = {"score": score, "found": mean, "rows": float(rows)}
    size = max(abs(score), abs(mean))
    allowed = ROUNDING * (1.0 if size <= 1 and bool(((found.right >= 0) & (found.right <= 1)).all()) else size)
    allowed += FLIPS / rows if size <= 1 else 0.0
    if rows < len(candidate.validation):  # type: ignore[arg-type]
        # Only a part of the data is scored: chance comes on top.
        allowed += t_interval(found.right.tolist(), LEVEL, unbounded=1e300).width / 2
    if score - mean <= allowed:
        return passed(f"quality on {rows} validation rows is {mean:.4g}, and {score:.4g} was reported", **because)
    return failed(
        f"quality on {rows} validation rows is {mean:.4g}, and training reported {score:.4g}",
        fix="compare the hash of the loaded checkpoint with that of the last one saved; load the best (or the averaged) weights, all keys of "
        "them, and prepare inputs as training did",
        numbers=because,
    )


def _older() -> nn.Module:
    return trained(Net(), steps=6)


def _head_lost() -> nn.Module:
    model = trained(Net())
    with torch.no_grad():
        model.head.weight *= 0
    return model


SICK = (lambda: candidate(_head_lost(), score=1.0), lambda: candidate(_older(), score=1.0))
WELL = (lambda: candidate(score=0.99), lambda: candidate(score=None), lambda: candidate(_older(), score=0.3))
