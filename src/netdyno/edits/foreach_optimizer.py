"""Write `foreach=True` into the optimizer's call.

Certain:    `torch.optim.AdamW(...)` and its like under any import, seen at its line or the only one of the file;
            `NeuralNet(optimizer__foreach=...)` of skorch.
Left alone: a class picked at run time, arguments from `**kwargs`, an optimizer that is fused.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import skorch, told
from netdyno.edits._optimizers import OFF, nothing_found, optimizers, with_flag
from netdyno.edits._tree import Code, argument, setting, uncertain, value_of
from netdyno.records.trial import Scalar

KINDS = ("optimizers",)
STAGE = 20
LIST_BY_LIST = frozenset(
    {"ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
)


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    calls = optimizers(code, here)
    for call in calls:
        if value_of(code, argument(call, "fused")) not in OFF:
            uncertain("the optimizer is fused, which is quicker than list by list", code.line(call))
    if calls:
        made = {call: with_flag(code, call, "foreach", instead_of="fused", kinds=LIST_BY_LIST) for call in calls}
        return code.replaced(made)
    teller = told(code)
    if teller is None:
        nothing_found(code, here)
    if not skorch(code.name(teller.func)):
        uncertain("transformers has no argument for it", code.line(teller))
    return code.replaced({teller: setting(code, teller, "optimizer__foreach", "True")})
