"""Write `fused=True` into the optimizer's call.

Certain:    `torch.optim.AdamW(...)` and its like under any import, seen at its line or the only one of the file;
            `TrainingArguments(optim=...)` of transformers; `NeuralNet(optimizer__fused=...)` of skorch.
Left alone: a class picked at run time, arguments from `**kwargs`, optimizers without a fused form.
"""

from collections.abc import Callable, Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import skorch, told
from netdyno.edits._optimizers import nothing_found, optimizers, with_flag
from netdyno.edits._tree import Code, argument, setting, uncertain, value_of
from netdyno.records.trial import Scalar

KINDS = ("optimizers",)
STAGE = 21
FUSED = frozenset({"SGD", "Adam", "AdamW", "Adagrad"})


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    calls = optimizers(code, here)
    if calls:
        return code.replaced(
            {call: with_flag(code, call, "fused", instead_of="foreach", kinds=FUSED) for call in calls}
        )
    teller = told(code)
    if teller is None:
        nothing_found(code, here)
    by = _in_skorch if skorch(code.name(teller.func)) else _in_transformers
    return code.replaced({teller: by(code, teller)})


def _in_skorch(code: Code, call: cst.Call) -> Callable[[cst.Call], cst.Call]:
    kind = argument(call, "optimizer")
    name = "SGD" if kind is None else (code.name(kind.value) or "").rpartition(".")[2]  # SGD is skorch's own default
    if name not in FUSED:
        uncertain(f"`{value_of(code, kind)}` is not known to have a fused form", code.line(call))
    return setting(code, call, "optimizer__fused", "True")


def _in_transformers(code: Code, call: cst.Call) -> Callable[[cst.Call], cst.Call]:
    written = value_of(code, argument(call, "optim"))
    if written is not None and written.strip("\"'") == "adamw_torch_fused":
        return lambda updated: updated
    if written is not None and written.strip("\"'") != "adamw_torch":
        uncertain(f"`optim` is {written} there, which has no fused form by that name", code.line(call))
    return setting(code, call, "optim", '"adamw_torch_fused"')
