"""A checkpoint was loaded under names with a prefix, so that nothing of it arrived.

Looks for:  `strict=False`, and names that would all fit with `module.`, `_orig_mod.` or `model.` taken off or put before them.
Matters:    the model goes on with random weights, and no error tells of it.
Try:        take the prefix off; save `model.module.state_dict()` of a wrapped model.
Not this:   single layers with other names (see `unmapped-keys`).
"""

from typing import Any

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy


@rule(stage="use")
def prefixed_keys(use: SaveUse) -> Finding | None:
    worst = max((load for load in use.loads if _hidden(load)), key=lambda load: load.missing_count, default=None)
    if worst is None:
        return None
    return Finding(
        says=f"{worst.missing_count} of {worst.keys} tensors of `{worst.model}` were not loaded: the names differ by the prefix "
        f"`{worst.prefix}`, and `strict=False` hid it",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={
            "missing": float(worst.missing_count),
            "unexpected": float(worst.unexpected_count),
            "share_of_weights": worst.missing_share,
        },
        fix=f"load `{{key.removeprefix('{worst.prefix}'): value for key, value in state.items()}}` with `strict=True`",
        where=worst.where,
        confidence=0.95,
        remedies=remedy("strip-prefix", prefix=worst.prefix or ""),
    )


def _hidden(load: StateLoad) -> bool:
    used = load.evaluated or load.trained
    return bool(not load.strict and load.prefix and load.missing_count and not load.filled_before and used)


def _load(**fields: Any) -> StateLoad:
    known: dict[str, Any] = {
        "model": "Net",
        "at": 0,
        "strict": False,
        "keys": 8,
        "evaluated": 6,
        "where": Place(file="serve.py", line=41),
    }
    return StateLoad(
        **(
            known
            | {
                "missing": ("fc.weight",),
                "missing_count": 8,
                "missing_share": 1.0,
                "unexpected": ("module.fc.weight",),
                "unexpected_count": 8,
                "prefix": "module.",
            }
            | fields
        )
    )


def _use(*loads: StateLoad) -> SaveUse:
    return SaveUse(updates=400, loads=loads)


# Evaluated with random weights; trained from them.
SICK = ((_use(_load(unmoved=True)),), (_use(_load(trained=300)),))
# Names that fit; a model that had its weights before; one that was never used.
WELL = (
    (_use(_load(prefix="", missing=(), missing_count=0)),),
    (_use(_load(filled_before=True)),),
    (_use(_load(evaluated=0)),),
)
