"""In evaluation mode the model gives another answer each time.

Looks for:  two passes of the same rows through the model in evaluation mode whose answers differ by a good part of their
            spread, with a dropout function at work in them.
Matters:    scores are noisy and too low, and served answers depend on luck.
Try:        `F.dropout(x, p, training=self.training)`, or `nn.Dropout`.
Not this:   a model that draws (a variational autoencoder, a sampler), or one in training mode on purpose.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Of the answers' spread over rows; sums in another order stay below a millionth.
MATERIAL = 0.05


@rule(stage="dynamics")
def random_evaluation(answers: Consistency) -> Finding | None:
    unsure = [model for model in answers.models if (model.again or 0.0) >= MATERIAL and "drop" in (model.chance or "")]
    if not unsure:
        return None
    worst = max(unsure, key=lambda model: model.again or 0.0)
    return Finding(
        says=f"`{worst.model}` answers the same {worst.rows} rows differently each time in evaluation mode, by {worst.again:.0%} of the answers' "
        f"spread: `{worst.chance}` runs whatever the mode",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={"difference": worst.again or 0.0, "rows": float(worst.rows)},
        fix="tell the function whether the model trains: `training=self.training`",
        where=worst.where,
        confidence=0.85,
        remedies=remedy("scale-dropout", factor=1.0, evaluation=False) + remedy("evaluation-mode"),
    )


def _answer(again: float | None, chance: str | None) -> Consistency:
    return Consistency(models=(ModelConsistency(model="Net", rows=128, again=again, chance=chance),))


SICK = ((_answer(0.7, "dropout"),),)
# The same answer; a variational autoencoder that draws; rounding; nobody asked.
WELL = ((_answer(0.0, None),), (_answer(0.6, "randn_like"),), (_answer(1e-7, "dropout"),), (_answer(None, None),))
