"""The weights that are used in the end are older than the model that was trained, and worse.

Looks for:  weights loaded after the last update that the model had long before, when evaluation gave less than it did later.
Matters:    what is served is not what was trained last or best: the file was not written again, or another one is read.
Try:        write the file each time the model gets better; compare a hash of what is loaded with what was saved.
Not this:   the best state, which is older but better; weights that are loaded to be trained again; a comparison of several files.
"""

from math import sqrt

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.scores import Round, Scores
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule

# Three standard errors of a share, and two points: more than another draw of the same rows explains.
ERRORS, POINTS = 3.0, 0.02


@rule(stage="use")
def stale_weights(use: SaveUse, scores: Scores) -> Finding | None:
    last = [load for load in use.loads if load.at == use.updates and load.evaluated and not load.trained]
    if len(last) != 1 or scores.measure not in ("accuracy", "r2"):
        return None
    load = last[0]
    if load.captured is None or load.captured >= load.at or load.missing_count or load.alias:
        return None
    then = next((one for one in scores.rounds if one.at >= load.captured), None)
    best = max(
        (one for one in scores.rounds if load.captured < one.at < use.updates),
        key=lambda one: one.score or 0.0,
        default=None,
    )
    if then is None or best is None or then.score is None or best.score is None:
        return None
    noise = sqrt(max(then.score * (1 - then.score), 0.0) / max(then.rows, 1)) if scores.measure == "accuracy" else 0.02
    # A loss that says the opposite: the state was kept for its loss, on purpose.
    kept_for_loss = then.loss is not None and best.loss is not None and then.loss <= best.loss
    if best.score - then.score <= max(ERRORS * noise, POINTS) or kept_for_loss:
        return None
    return Finding(
        says=f"the weights that are loaded in the end are those of update {load.captured}, when {scores.measure} was {then.score:.3f}; at update {best.at} it was {best.score:.3f}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={"loaded_from_update": float(load.captured), "its_score": then.score, "later_score": best.score},
        fix="write the file each time the model gets better (no `if not exists`), and load the one that was written last",
        where=load.where,
        confidence=0.85,
    )


def _case(
    captured: int = 34, *, first: float = 0.72, first_loss: float = 1.1, trained: int = 0
) -> tuple[SaveUse, Scores]:
    load = StateLoad(
        model="Net",
        at=400,
        strict=True,
        keys=4,
        evaluated=3,
        trained=trained,
        captured=captured,
        file="best.pt",
        where=Place(file="train.py", line=90),
    )
    rounds = (
        Round(at=34, score=first, loss=first_loss, rows=450),
        Round(at=200, score=0.95, loss=0.2, rows=450),
        Round(at=366, score=0.97, loss=0.15, rows=450),
        Round(at=400, score=0.72, loss=1.1, rows=450),
    )
    return SaveUse(updates=400, loads=(load,)), Scores(measure="accuracy", rounds=rounds)


SICK = (_case(),)
# The last state; an older one that is as good; one that was kept for its loss; one that is trained again.
WELL = (_case(400), _case(first=0.96), _case(first_loss=0.1), _case(trained=100))
