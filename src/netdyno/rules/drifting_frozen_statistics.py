"""A frozen part of the model goes on learning its normalisation statistics.

Looks for:  layers whose weights are frozen (`requires_grad=False`) and whose running statistics move, because they are
            called in training mode.
Matters:    what was frozen to stay as it was becomes another network: it forgets what it could do, and saved and
            served together with a new head it drifts with each batch.
Try:        `.eval()` on the frozen part after each `model.train()`.
Not this:   a frozen part in evaluation mode, weights that are frozen for a moment only (as a discriminator is while the
            generator learns), statistics that stay where they were.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.modes import Drift, ModelModes, ModeUse
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

# Calls in which it learnt statistics, without being trained in between.
CALLS = 10
# In standard deviations of what it had learnt; and the variance's change.
MOVED, RATIO = 0.25, 1.5


@rule(stage="settings")
def drifting_frozen_statistics(use: ModeUse) -> Finding | None:
    drifts = [(model, drift) for model in use.models for drift in model.drifts if _drifts(drift)]
    if not drifts:
        return None
    model, worst = max(drifts, key=lambda pair: pair[1].mean_moved)
    where = model.training_where
    return Finding(
        says=f"`{worst.name}` of `{model.model}` is frozen and still in training mode: over {worst.calls} calls its running mean moved by "
        f"{worst.mean_moved:.2g} standard deviations, its variance by a factor of {worst.variance_ratio:.2g}",
        layer="optimisation",
        saves=Saving(low=0.0, high=0.0),
        because={
            "calls": float(worst.calls),
            "mean_moved": worst.mean_moved,
            "variance_ratio": worst.variance_ratio,
            "frozen_parameters": float(model.frozen_parameters),
        },
        fix="call `.eval()` on the frozen part after `model.train()`",
        where=Place(file=where.file, line=where.line, module=worst.name)
        if where is not None
        else Place(module=worst.name),
        confidence=0.9,
        remedies=remedy("freeze-statistics"),
    )


def _drifts(drift: Drift) -> bool:
    return drift.calls >= CALLS and (drift.mean_moved >= MOVED or drift.variance_ratio >= RATIO)


def _use(*drifts: Drift, **fields: object) -> ModeUse:
    known: dict[str, object] = {
        "model": "Net",
        "parameters": 8,
        "frozen_parameters": 6,
        "norms": 2,
        "training_calls": 200,
    }
    return ModeUse(updates=200, models=(ModelModes(**(known | fields), drifts=drifts),))  # type: ignore[arg-type]


SICK = (
    (_use(Drift(name="backbone.bn1", calls=200, mean_moved=1.4, variance_ratio=1.2)),),
    (_use(Drift(name="backbone.bn1", calls=60, mean_moved=0.1, variance_ratio=3.0)),),
)
# A frozen backbone in evaluation mode; one that sees the same data as before; frozen for one step.
WELL = (
    (_use(),),
    (_use(Drift(name="bn", calls=200, mean_moved=0.02, variance_ratio=1.05)),),
    (_use(Drift(name="bn", calls=1, mean_moved=0.5, variance_ratio=2.0)),),
)
