"""Batch normalisation learns from batches of a few rows.

Looks for:  training batches of few rows through layers that keep running statistics, where the same training batches
            give another loss with running statistics than with their own.
Matters:    with a few rows the statistics of a batch are mostly noise: the model learns from it what evaluation, with
            running statistics, doesn't offer.
Try:        larger batches, GroupNorm or LayerNorm, or frozen statistics.
Not this:   layers that look at one row only, small batches whose loss is the same with running statistics.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency, NormLayer
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# The relative noise of a variance over n rows is about sqrt(2/n): a half at 8.
FEW_ROWS = 8
# Losses on the same rows, where only the statistics differ: healthy models have them within some per cent.
APART = 1.3
# Batches in which they differ in the same way; with fewer kept ones than this nothing is said.
BATCHES, AGREE = 4, 0.75


@rule(stage="settings")
def tiny_batch_statistics(answers: Consistency) -> Finding | None:
    tiny = [model for model in answers.models if _tiny(model)]
    if not tiny:
        return None
    worst = max(tiny, key=_apart)
    return Finding(
        says=f"batch normalisation takes its statistics from {worst.batch_rows} rows: the same training batches have loss "
        f"{worst.train_loss:.3g} with their own statistics and {worst.train_loss_eval:.3g} with running ones, as in evaluation",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "batch_rows": float(worst.batch_rows),
            "train_loss": worst.train_loss or 0.0,
            "train_loss_eval": worst.train_loss_eval or 0.0,
        },
        fix="train with larger batches, or put GroupNorm in the place of BatchNorm",
        where=worst.where,
        confidence=0.9,
        remedies=remedy("group-norm-instead"),
    )


def _apart(model: ModelConsistency) -> float:
    own, running = model.train_loss, model.train_loss_eval
    return max(own / running, running / own) if own is not None and running is not None and own > 0 < running else 0.0


def _tiny(model: ModelConsistency) -> bool:
    if not 0 < model.batch_rows <= FEW_ROWS or model.batches < BATCHES or not model.norms or _apart(model) < APART:
        return False
    return max(model.worse_batches, model.batches - model.worse_batches) >= AGREE * model.batches


def _answer(**fields: object) -> Consistency:
    known: dict[str, object] = {
        "model": "Net",
        "batches": 12,
        "batch_rows": 2,
        "train_loss": 0.1,
        "train_loss_eval": 1.4,
        "worse_batches": 12,
        "norms": (NormLayer(name="bn", momentum=0.1),),
    }
    return Consistency(models=(ModelConsistency(**(known | fields)),))  # type: ignore[arg-type]


SICK = ((_answer(),), (_answer(batch_rows=4, train_loss_eval=0.2),))
# Larger batches; no such layers (GroupNorm with two rows); the same loss either way; few batches; batches that disagree.
WELL = (
    (_answer(batch_rows=64),),
    (_answer(norms=(), batches=0, train_loss=None, train_loss_eval=None),),
    (_answer(train_loss_eval=0.11),),
    (_answer(batches=2, worse_batches=2),),
    (_answer(worse_batches=6),),
)
