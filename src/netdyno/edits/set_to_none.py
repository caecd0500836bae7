"""Take `set_to_none=False` out of the calls of `zero_grad`.

Certain:    a literal `False`, by keyword or as the only argument.
Left alone: a value that is computed; gradients that are filled with zeros by hand.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._tree import Code, argument, uncertain, value_of, without_arg
from netdyno.records.trial import Scalar

KINDS = ("optimizers",)
STAGE = 20


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    calls = [call for call in code.calls() if _clears(call)]
    if not calls:
        uncertain("nothing here calls `zero_grad`")
    keeping = [call for call in calls if value_of(code, argument(call, "set_to_none", 0)) not in (None, "True")]
    for call in keeping:
        if value_of(code, argument(call, "set_to_none", 0)) != "False":
            uncertain(f"`{code.text(call)}` decides at run time", code.line(call))
    return code.replaced({call: lambda updated: without_arg(updated, "set_to_none", 0) for call in keeping})


def _clears(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "zero_grad"
