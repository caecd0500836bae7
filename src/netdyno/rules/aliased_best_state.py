"""The best weights were kept by reference, so that training went on changing them.

Looks for:  a state that `state_dict()` gave, loaded or saved many updates later, whose tensors are the model's own.
Matters:    there is no best state: what is restored is what was there anyway, the last one.
Try:        `copy.deepcopy(model.state_dict())`, or write it to a file.
Not this:   a state that is loaded or saved at once; copies; a state whose tensors were replaced.
"""

from typing import Any

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import FileSave, SaveUse, StateLoad
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy


@rule(stage="use")
def aliased_best_state(use: SaveUse) -> Finding | None:
    load = next((one for one in use.loads if one.alias and one.captured is not None and one.at > one.captured), None)
    if load is not None:
        age, what, where = load.at - (load.captured or 0), "loaded", load.where
    else:
        save = next((one for one in use.saves if one.alias_age > 0 and one.captures > 1), None)
        if save is None:
            return None
        age, what, where = save.alias_age, "saved", save.where
    return Finding(
        says=f"the state that is {what} was kept by reference {age} updates ago: its tensors are the model's own, so it holds the last weights",
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),
        because={"updates_since": float(age)},
        fix="keep a copy: `best_state = copy.deepcopy(model.state_dict())`",
        where=where,
        # A state that is saved may have been taken once for all, to follow the weights.
        confidence=1.0 if load is not None else 0.75,
        remedies=remedy("copy-states"),
    )


def _load(**fields: Any) -> StateLoad:
    known: dict[str, Any] = {
        "model": "Net",
        "at": 0,
        "strict": False,
        "keys": 8,
        "evaluated": 6,
        "where": Place(file="serve.py", line=41),
    }
    return StateLoad(**(known | {"strict": True, "at": 300, "captured": 120, "alias": True, "captures": 9} | fields))


def _use(*loads: StateLoad) -> SaveUse:
    return SaveUse(updates=400, loads=loads)


def _saved(**fields: Any) -> SaveUse:
    known: dict[str, Any] = {"times": 1, "bytes": 4000, "stored": 4000, "alias_age": 180, "captures": 9}
    return SaveUse(updates=300, saves=(FileSave(**(known | fields)),))


# Restored; written to a file.
SICK = ((_use(_load()),), (_saved(),))
# A copy; taken and loaded at once; saved at once; taken once before training and saved again and again.
WELL = (
    (_use(_load(alias=False)),),
    (_use(_load(captured=300)),),
    (_saved(alias_age=0),),
    (_saved(captures=1),),
)
