"""One flag more for an optimizer: at its own call, or at that of the framework that makes it."""

from collections.abc import Callable
from typing import NoReturn

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import fastai, told
from netdyno.edits._tree import (
    Code,
    Uncertain,
    argument,
    calls_of,
    chosen,
    is_optimizer,
    refuse_splat,
    setting,
    uncertain,
    value_of,
    without_arg,
)

OFF = (None, "False", "None")


def optimizers(code: Code, here: Here) -> list[cst.Call]:
    """The calls that make the optimizers which train; empty when a framework makes them."""
    try:
        return chosen(
            code, is_optimizer, here.lines("optimizers"), "the optimizer", elsewhere=here.elsewhere("optimizers")
        )
    except Uncertain:
        if told(code) is not None:
            return []
        raise


def kind_of(code: Code, call: cst.Call) -> str:
    return (code.name(call.func) or "").rpartition(".")[2]


def with_flag(
    code: Code, call: cst.Call, flag: str, *, instead_of: str, kinds: frozenset[str]
) -> Callable[[cst.Call], cst.Call]:
    """What makes of an optimizer's call the one with `flag=True`, and without the flag that excludes it."""
    kind, line = kind_of(code, call), code.line(call)
    if value_of(code, argument(call, flag)) == "True":
        return lambda updated: updated
    if kind not in kinds:
        uncertain(f"`{kind}` takes no `{flag}` that would do anything", line)
    for barred in ("differentiable", "capturable"):
        if value_of(code, argument(call, barred)) not in OFF:
            uncertain(f"`{kind}` has `{barred}`, which does not go with `{flag}`", line)
    refuse_splat(code, call, flag)
    change = setting(code, call, flag, "True")
    if value_of(code, argument(call, instead_of)) in OFF:
        return change
    return lambda updated: without_arg(change(updated), instead_of)


def nothing_found(code: Code, here: Here) -> NoReturn:
    """Raises with the reason why no optimizer's call is in this file."""
    seen = here.sites.of("optimizers")
    if calls_of(code, fastai):
        uncertain("fastai makes its own optimizer, which is none of PyTorch's")
    if seen:
        uncertain(f"the optimizer is made in `{seen[0].file}`, line {seen[0].line}, and nothing here says how")
    uncertain("no call here makes an optimizer of PyTorch")
