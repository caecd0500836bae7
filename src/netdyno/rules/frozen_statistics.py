"""Running statistics do not follow the data.

Looks for:  batch normalisation that has seen many training batches with a momentum of zero, or one so small that the
            first value still dominates, while the data's statistics are elsewhere.
Matters:    training normalises by the batch, evaluation by statistics that were never learnt: it sees another network.
Try:        the usual momentum of 0.1, or None for a plain average.
Not this:   frozen layers in evaluation mode, statistics that agree with the data, layers that keep none.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.modes import Consistency, ModelConsistency, NormLayer
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Batches after which the usual momentum has long forgotten where it began.
SEEN = 20
# More than half of the running value is still the first one.
KEPT = 0.5
# A running mean half a standard deviation off, or a variance off by half again, moves what comes out of the layer.
MEAN_OFF, VARIANCE_OFF = 0.5, 1.5
# Worse than the same rows with their own statistics, by more than batches differ.
WORSE = 1.1


@rule(stage="settings")
def frozen_statistics(answers: Consistency) -> Finding | None:
    found = [(model, layer) for model in answers.models for layer in model.norms if _frozen(layer)]
    if not found:
        return None
    model, layer = max(found, key=lambda pair: pair[1].variance_ratio or 0.0)
    worse = _worse(model)
    return Finding(
        says=f"the running statistics of `{layer.name}` do not follow the data (momentum {layer.momentum:g}, {layer.batches} batches seen): "
        f"its variance is off by a factor of {layer.variance_ratio or 0:.3g}"
        + (f", and training rows have {worse:.3g} times the loss in evaluation mode" if worse >= WORSE else ""),
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "momentum": layer.momentum or 0.0,
            "batches": float(layer.batches),
            "mean_distance": layer.mean_distance or 0.0,
            "variance_ratio": layer.variance_ratio or 0.0,
        },
        fix="give the normalisation layers a momentum of 0.1",
        where=Place(module=layer.name),
        confidence=0.95 if worse >= WORSE else 0.6,
        remedies=remedy("move-statistics"),
    )


def _frozen(layer: NormLayer) -> bool:
    if layer.momentum is None or layer.batches < SEEN or (1 - layer.momentum) ** layer.batches < KEPT:
        return False
    return (layer.mean_distance or 0.0) >= MEAN_OFF or (layer.variance_ratio or 0.0) >= VARIANCE_OFF


def _worse(model: ModelConsistency) -> float:
    if model.train_loss is None or model.train_loss_eval is None or model.train_loss <= 0:
        return 0.0
    return model.train_loss_eval / model.train_loss


def _answer(layer: dict[str, object], **fields: object) -> Consistency:
    norm: dict[str, object] = {
        "name": "bn1",
        "momentum": 0.0,
        "batches": 300,
        "mean_distance": 1.2,
        "variance_ratio": 6.0,
    }
    known: dict[str, object] = {"model": "Net", "batches": 8, "train_loss": 0.1, "train_loss_eval": 2.0}
    return Consistency(models=(ModelConsistency(**(known | fields), norms=(NormLayer(**(norm | layer)),)),))  # type: ignore[arg-type]


SICK = ((_answer({}),), (_answer({"momentum": 1e-4}),), (_answer({}, train_loss=None),))
# The usual momentum; a plain average; few batches; statistics that agree; a layer in evaluation mode saw no batches.
WELL = (
    (_answer({"momentum": 0.1}),),
    (_answer({"momentum": None}),),
    (_answer({"batches": 5}),),
    (_answer({"mean_distance": 0.05, "variance_ratio": 1.1}),),
    (_answer({"batches": 0}),),
)
