"""The model is evaluated in training mode.

Looks for:  evaluations without gradients, with a score or a loss made of them, while the model that trains stands in
            training mode; and asks the model at the end what difference that makes on rows that were evaluated.
Matters:    dropout throws values away and batch normalisation mixes the rows of a batch, so the score is not that of
            the model; normalisation also learns its statistics from the validation data.
Try:        `model.eval()` before the evaluation and `model.train()` after it.
Not this:   a model without layers that know the difference, dropout that is left on to sample the same input several
            times, pictures drawn from a generator that nobody scores, a training accuracy taken within the step.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.modes import Consistency, ModelConsistency, ModelModes, ModeUse
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# The answers' spread over rows is what decides between them: a tenth of it is more than rounding and less than any
# dropout layer of a common rate gives.
MATERIAL = 0.1
# One prediction in fifty that changes shows in every metric.
FLIPS = 0.02
# Whoever passes the same tensor three times in a row wants to see the answers differ.
SAMPLED = 3
# Evaluations of nearly every update are part of the step.
EVERY_UPDATE = 0.5
FEW = 8  # rounds that say nothing yet of how often one evaluates


@rule(stage="use")
def training_mode_evaluation(use: ModeUse, answers: Consistency | None) -> Finding | None:
    found = [(model, _answers(model, answers)) for model in use.models if _in_training(model, use.updates)]
    told = [(model, answer) for model, answer in found if answer is None or _material(answer)]
    if not told:
        return None
    model, answer = max(told, key=lambda pair: pair[0].in_training)
    if answer is None and not model.dropouts + model.norms:
        return None
    change = answer.as_evaluated if answer is not None else None
    return Finding(
        says=f"`{model.model}` is evaluated in training mode in {model.rounds_in_training} of {model.rounds} rounds: "
        f"{_what(model, answer)}{_effect(answer)}",
        layer="inference",
        saves=Saving(low=0.0, high=0.0),
        because={
            "rounds_in_training": float(model.rounds_in_training),
            "rounds": float(model.rounds),
            **({"difference": change} if change is not None else {}),
            **({"flips": answer.flips} if answer is not None and answer.flips is not None else {}),
        },
        fix="call `model.eval()` before the evaluation and `model.train()` before training goes on",
        where=model.evaluation_where,
        confidence=0.95 if answer is not None and model.in_training == model.evaluations else 0.6,
        remedies=remedy("evaluation-mode"),
    )


def _in_training(model: ModelModes, updates: int) -> bool:
    if not model.training_calls or not model.scored or not model.judged or model.repeats >= SAMPLED:
        return False
    if model.rounds > FEW and model.rounds >= EVERY_UPDATE * updates:
        return False
    return model.rounds_in_training > 0 and 2 * model.in_training >= model.evaluations


def _answers(model: ModelModes, answers: Consistency | None) -> ModelConsistency | None:
    there = [one for one in answers.models if one.model == model.model] if answers is not None else []
    return max(
        (one for one in there if one.as_evaluated is not None), key=lambda one: one.as_evaluated or 0, default=None
    )


def _material(answer: ModelConsistency) -> bool:
    return (answer.as_evaluated or 0.0) >= MATERIAL or (answer.flips or 0.0) >= FLIPS


def _what(model: ModelModes, answer: ModelConsistency | None) -> str:
    by_norms = answer is not None and (answer.by_norms or 0.0) >= MATERIAL / 2
    by_chance = answer is not None and (answer.as_evaluated_again or 0.0) >= MATERIAL / 2
    norms = "batch normalisation mixes the rows of each batch and learns from validation data"
    drops = f"dropout{f' of {model.dropout_p:g}' if model.dropout_p else ''} throws values away"
    if by_norms and by_chance:
        return f"{norms}, and {drops}"
    if by_norms or (answer is None and model.norms):
        return norms
    return drops


def _effect(answer: ModelConsistency | None) -> str:
    if answer is None or answer.as_evaluated is None:
        return ""
    flips = f", and {answer.flips:.0%} of the choices change" if answer.flips else ""
    return f" (answers differ by {answer.as_evaluated:.0%} of their spread from those in evaluation mode{flips})"


def _model(**fields: object) -> ModelModes:
    known: dict[str, object] = {
        "model": "Net",
        "dropouts": 2,
        "dropout_p": 0.5,
        "training_calls": 300,
        "began_training": True,
        "evaluations": 40,
        "in_training": 40,
        "rounds": 10,
        "rounds_in_training": 10,
        "repeats": 1,
        "scored": True,
        "judged": True,
    }
    return ModelModes(**(known | fields))  # type: ignore[arg-type]


def _use(*models: ModelModes) -> ModeUse:
    return ModeUse(updates=300, models=models)


def _answer(**fields: object) -> Consistency:
    known: dict[str, object] = {
        "model": "Net",
        "rows": 128,
        "as_evaluated": 0.5,
        "as_evaluated_again": 0.6,
        "flips": 0.1,
    }
    return Consistency(models=(ModelConsistency(**(known | fields)),))  # type: ignore[arg-type]


# Dropout; batch normalisation; no answers, which is a suspicion.
SICK = (
    (_use(_model()), _answer()),
    (_use(_model(dropouts=0, norms=3)), _answer(as_evaluated=0.3, as_evaluated_again=0.0, by_norms=0.3)),
    (_use(_model()),),
)
# In evaluation mode; nothing that knows the difference; group norms; sampling on purpose; a generator's pictures; a training
# accuracy within each step; another module than the one that trains.
WELL = (
    (_use(_model(in_training=0, rounds_in_training=0)), _answer(as_evaluated=None)),
    (_use(_model(dropouts=0)), _answer(as_evaluated=0.0, as_evaluated_again=0.0, flips=0.0)),
    (_use(_model(dropouts=0)),),
    (_use(_model(repeats=20)), _answer()),
    (_use(_model(norms=3, scored=False, judged=False)), _answer()),
    (_use(_model(rounds=300, rounds_in_training=300)), _answer()),
    (_use(_model(training_calls=0)), _answer()),
)
