"""Each training batch comes from one source, and normalisation statistics are an average of all.

Looks for:  batches whose means differ far more than rows drawn at random would, in front of batch normalisation, and a
            loss on the same training rows that is much worse with running statistics.
Matters:    training sees each source normalised by itself; evaluation uses a mixture that no batch ever had.
Try:        batches that mix the sources, or statistics (or layers) of their own for each source.
Not this:   mixed batches, batches of a few rows, statistics that were never learnt.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# The F ratio of batch means is 1 for rows drawn at random; with some batches and channels chance keeps its middle below 2.
MIXED = 4.0
WORSE = 1.5
BATCHES, ROWS = 4, 8


@rule(stage="dynamics")
def mixed_domain_statistics(answers: Consistency) -> Finding | None:
    mixed = [model for model in answers.models if _mixed(model)]
    if not mixed:
        return None
    worst = max(mixed, key=lambda model: model.mixed or 0.0)
    return Finding(
        says=f"training batches come from different sources: their means differ {worst.mixed:.3g} times as much as chance allows, and the "
        f"same training rows have loss {worst.train_loss:.3g} with their batch's statistics, {worst.train_loss_eval:.3g} with the running mixture",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "mixed": worst.mixed or 0.0,
            "train_loss": worst.train_loss or 0.0,
            "train_loss_eval": worst.train_loss_eval or 0.0,
        },
        fix="mix the sources within each batch, or keep normalisation statistics for each source",
        where=worst.where,
        confidence=0.9,
        remedies=remedy("group-norm-instead"),
    )


def _mixed(model: ModelConsistency) -> bool:
    if model.mixed is None or model.mixed < MIXED or model.batches < BATCHES or model.batch_rows < ROWS:
        return False
    return model.train_loss is not None and (model.train_loss_eval or 0.0) > WORSE * model.train_loss > 0


def _answer(**fields: object) -> Consistency:
    known: dict[str, object] = {
        "model": "Net",
        "batches": 8,
        "batch_rows": 50,
        "mixed": 60.0,
        "train_loss": 0.02,
        "train_loss_eval": 3.5,
    }
    return Consistency(models=(ModelConsistency(**(known | fields)),))  # type: ignore[arg-type]


SICK = ((_answer(),),)
# Mixed batches; two rows; the same loss either way; no normalisation.
WELL = (
    (_answer(mixed=1.3),),
    (_answer(batch_rows=2),),
    (_answer(train_loss_eval=0.021),),
    (_answer(mixed=None),),
)
