"""The model is built anew in each epoch, and what the last one learnt is thrown away.

Looks for:  several models of one class, trained one after another by the same loader, none for more than one pass of it.
Matters:    the loss begins anew with each epoch; only the last epoch counts.
Try:        build the model and its optimizer once, before the loop.
Not this:   folds or seeds, whose models train for several passes or on loaders of their own; a job that goes on from its checkpoint.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import Gradients
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule
from netdyno.rules._learning import NOTHING, seen

MODELS = 3  # two may be a trial and the real one


@rule(suggests=(), stage="structure")
def rebuilt_model(gradients: Gradients, saves: SaveUse | None = None) -> Finding | None:
    if _goes_on(saves):
        return None
    if gradients.models < MODELS or gradients.models_passes is None or gradients.models_passes > 1:
        return None
    return Finding(
        says=f"{gradients.models} models of one class were trained one after another, each for one pass of the same loader: each epoch begins"
        " from nothing",
        layer="optimisation",
        saves=NOTHING,
        because={"models": float(gradients.models), "passes_each": gradients.models_passes},
        fix="build the model and its optimizer once, before the loop over epochs",
        where=gradients.model_where,
        confidence=0.8,
    )


def _goes_on(saves: SaveUse | None) -> bool:
    """Whether new models were given the weights of trained ones, and trained on."""
    return saves is not None and any(load.captured and load.trained for load in saves.loads)


def _resumed(captured: int) -> SaveUse:
    return SaveUse(
        updates=180, loads=(StateLoad(model="Net", at=12, strict=True, keys=4, captured=captured, trained=168),)
    )


SICK = ((seen(models=8, models_passes=1.0),), (seen(models=8, models_passes=1.0), _resumed(0)))
# One; folds with loaders of their own; seeds that train for many passes; a job that goes on from its checkpoint.
WELL = (
    (seen(),),
    (seen(models=5),),
    (seen(models=5, models_passes=10.0),),
    (seen(models=8, models_passes=1.0), _resumed(12)),
)
