"""Training goes on in evaluation mode after an evaluation.

Looks for:  calls that lead to updates while the whole model stands in evaluation mode, from some evaluation on to the
            end, where layers know the difference.
Matters:    dropout no longer regularises, and batch normalisation keeps the statistics of the first updates for good.
Try:        `model.train()` at the beginning of each epoch, after the evaluation's `model.eval()`.
Not this:   a frozen part in evaluation mode within a model that trains, a model that was never in training mode, or
            one whose layers don't know the difference.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency, ModelModes, ModeUse
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Less than a twentieth of the updates is a last touch, or an accident at the end.
SHARE, LEAST = 0.05, 4
# What training mode changes in the answers, in spreads: less is rounding.
MATERIAL = 0.02


@rule(stage="use")
def stuck_in_evaluation(use: ModeUse, answers: Consistency | None) -> Finding | None:
    stuck = [model for model in use.models if _stuck(model) and _knows(model, answers)]
    if not stuck:
        return None
    worst = max(stuck, key=lambda model: model.training_in_eval)
    parts = [f"{worst.dropouts} dropout"] * bool(worst.dropouts) + [f"{worst.norms} normalisation"] * bool(worst.norms)
    return Finding(
        says=f"from update {(worst.stuck_from or 0) + 1} on `{worst.model}` is trained in evaluation mode "
        f"({worst.training_in_eval} of {worst.training_calls} calls): nothing switched it back after an evaluation"
        + (f", and its {' and '.join(parts)} layers rest" if parts else ""),
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "training_in_eval": float(worst.training_in_eval),
            "training_calls": float(worst.training_calls),
            "stuck_from": float(worst.stuck_from or 0),
        },
        fix="call `model.train()` at the beginning of each epoch, or after each evaluation",
        where=worst.training_where,
        confidence=0.95 if worst.began_training else 0.5,
        remedies=remedy("training-mode"),
    )


def _stuck(model: ModelModes) -> bool:
    if model.stuck_from is None or not model.evaluated_before or model.frozen_parameters >= model.parameters:
        return False
    return model.training_in_eval >= max(LEAST, SHARE * model.training_calls)


def _knows(model: ModelModes, answers: Consistency | None) -> bool:
    if model.dropouts or model.norms:
        return True
    there: tuple[ModelConsistency, ...] = answers.models if answers is not None else ()
    return any(one.model == model.model and (one.in_training or 0.0) >= MATERIAL for one in there)


def _use(**fields: object) -> ModeUse:
    known: dict[str, object] = {
        "model": "Net",
        "parameters": 6,
        "dropouts": 2,
        "training_calls": 300,
        "training_in_eval": 280,
        "began_training": True,
        "stuck_from": 20,
        "evaluated_before": True,
    }
    return ModeUse(updates=300, models=(ModelModes(**(known | fields)),))  # type: ignore[arg-type]


def _answer(in_training: float) -> Consistency:
    return Consistency(models=(ModelConsistency(model="Net", in_training=in_training),))


# After the first evaluation; dropout called as a function; evaluated before training and never switched (a suspicion).
SICK = (
    (_use(),),
    (_use(dropouts=0), _answer(0.4)),
    (_use(began_training=False, training_in_eval=300, stuck_from=0),),
)
# Always switched back; nothing knows the difference; a frozen backbone in evaluation mode; from the beginning, on purpose.
WELL = (
    (_use(training_in_eval=0, stuck_from=None),),
    (_use(dropouts=0), _answer(0.0)),
    (_use(frozen_parameters=6),),
    (_use(began_training=False, evaluated_before=False, training_in_eval=300, stuck_from=0),),
)
