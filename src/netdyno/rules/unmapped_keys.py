"""Weights that were meant to be loaded stayed as they were, and nothing said so.

Looks for:  `strict=False`, names that the checkpoint lacks beside names of the same shape that only the checkpoint has, and a
            model that is then used with those weights as they were made.
Matters:    a layer with random weights answers, and no error tells of it.
Try:        rename the keys of the checkpoint to the model's; load with `strict=True`.
Not this:   a new head on an old backbone that is trained afterwards; adapters loaded over weights that are there already; a
            wrapper's prefix before every name (see `prefixed-keys`).
"""

from typing import Any

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import SaveUse, StateLoad
from netdyno.rules._base import rule

# A share of the weights so large that whoever trains on still trains from nothing: it is no new head.
MOST = 0.5


@rule(stage="use")
def unmapped_keys(use: SaveUse) -> Finding | None:
    worst = max((load for load in use.loads if _hidden(load)), key=lambda load: load.missing_share, default=None)
    if worst is None:
        return None
    return Finding(
        says=f"{worst.missing_count} of {worst.keys} tensors of `{worst.model}` were not in the checkpoint, and `strict=False` hid it: "
        f"{_names(worst.missing)} stayed as they were made, while {_names(worst.unexpected)} fitted nowhere",
        layer="deployment",
        saves=Saving(low=0.0, high=0.0),
        because={
            "missing": float(worst.missing_count),
            "unexpected": float(worst.unexpected_count),
            "same_shape": float(worst.twins),
            "share_of_weights": worst.missing_share,
            "evaluations_since": float(worst.evaluated),
        },
        fix="rename the checkpoint's keys to the model's before loading, and load with `strict=True`",
        where=worst.where,
        # A name and a shape that are left over on both sides belong together; alone, a missing name may be a new layer.
        confidence=0.95 if worst.twins else 0.5,
    )


def _hidden(load: StateLoad) -> bool:
    if load.strict or not load.missing_count or load.prefix or load.filled_before:
        return False
    # Whoever trains on gives a missing layer its weights that way.
    return _nothing_came(load) if load.trained else load.unmoved and load.evaluated > 0


def _nothing_came(load: StateLoad) -> bool:
    return load.missing_share >= MOST and load.twins == load.missing_count > 1


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names[:2]) or "nothing"


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
            | {"missing": ("head.weight", "head.bias"), "missing_count": 2, "missing_share": 0.1, "unmoved": True}
            | fields
        )
    )


def _use(*loads: StateLoad) -> SaveUse:
    return SaveUse(updates=400, loads=loads)


RENAMED = {"unexpected": ("fc.weight", "fc.bias"), "unexpected_count": 2, "twins": 2}
# A renamed head, evaluated; a head that the checkpoint does not have at all (a suspicion); nearly all of it renamed, and trained from nothing.
SICK = (
    (_use(_load(**RENAMED)),),
    (_use(_load()),),
    (
        _use(
            _load(
                **(RENAMED | {"missing_count": 8, "twins": 8, "missing_share": 1.0, "trained": 300, "unmoved": False})
            )
        ),
    ),
)
# A new head that is trained; adapters over a loaded base; everything there; loaded and never used; weights that came later.
WELL = (
    (_use(_load(**RENAMED, trained=252)),),
    (_use(_load(filled_before=True)),),
    (_use(_load(strict=True, missing=(), missing_count=0, unmoved=False)),),
    (_use(_load(evaluated=0)),),
    (_use(_load(unmoved=False)),),
)
