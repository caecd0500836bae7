"""A model was exported while it behaved as in training.

Looks for:  a trace or an exported program made of a model whose dropout or batch normalisation was in training mode, and
            whose answers to real inputs differ from the model's own in evaluation mode.
Matters:    dropout and batch statistics are part of what was exported: it answers by chance, or by its neighbours.
Try:        `model.eval()` before the export.
Not this:   a path that was chosen by the example (see `frozen-branch`); an exporter that switches modes itself.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.shipping import Derived, ShippingUse
from netdyno.rules._base import rule
from netdyno.rules._shipping import differs, effect, numbers, shipped


@rule(stage="use")
def traced_in_training(use: ShippingUse) -> Finding | None:
    worst = max((made for made in use.derived if _awake(made)), key=lambda made: made.error or 0.0, default=None)
    if worst is None:
        return None
    return Finding(
        says=f"`{worst.model}` was exported ({worst.how}) with {len(worst.awake)} layers in training mode, `{worst.awake[0]}` among them: {effect(worst)}",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because=numbers(worst),
        fix="call `model.eval()` before the export",
        where=worst.where,
        confidence=0.95,
    )


def _awake(made: Derived) -> bool:
    return made.how in ("trace", "export", "onnx") and bool(made.awake) and differs(made)


SICK = ((shipped(awake=("drop1",), error=0.4, agreement=0.9),),)
# In evaluation mode; an exporter that switched it itself; a branch that was frozen.
WELL = ((shipped(),), (shipped(awake=("drop1",), how="onnx"),), (shipped(error=0.5, agreement=0.8),))
