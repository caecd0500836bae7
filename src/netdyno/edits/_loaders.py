"""One argument more for the training loader: at its own call, or at that of the framework that makes it."""

from collections.abc import Callable

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import fastai, hugging, skorch, told
from netdyno.edits._tree import (
    LOADER,
    Code,
    Uncertain,
    argument,
    calls_of,
    chosen,
    is_loader,
    refuse_splat,
    setting,
    uncertain,
    value_of,
)

Maker = Callable[[cst.Call], cst.Call]


def loaders(code: Code, here: Here) -> list[cst.Call]:
    """The calls that make the loaders training reads; empty when a framework makes them."""
    try:
        return chosen(code, is_loader, here.lines("loaders"), "the loader", elsewhere=here.elsewhere("loaders"))
    except Uncertain:
        if told(code) is not None or calls_of(code, fastai):
            return []
        raise


def position(name: str) -> int | None:
    return LOADER.index(name) if name in LOADER else None


def with_setting(code: Code, call: cst.Call, name: str, value: str) -> Maker:
    """What makes of a loader's call, or of the one that tells a framework, the one with another setting."""
    full = code.name(call.func)
    if hugging(full):
        return setting(code, call, f"dataloader_{name}", value)
    if skorch(full):
        return setting(code, call, f"iterator_train__{name}", value)
    return setting(code, call, name, value, position(name) if is_loader(full) else None)


def places(code: Code, here: Here, name: str) -> list[cst.Call]:
    """The calls that settle the training loader's settings. Raises where there is none."""
    calls = loaders(code, here)
    if calls:
        return calls
    if (call := told(code)) is not None:
        return [call]
    return [_of_fastai(code, here, name)]


def _of_fastai(code: Code, here: Here, name: str) -> cst.Call:
    """fastai hands what it does not know itself on to its loader: `block.dataloaders(path, num_workers=4)`."""
    made = [call for call in code.calls() if _makes_loaders(code, call)] if calls_of(code, fastai) else []
    if len(made) == 1 and name in {"num_workers", "pin_memory"}:
        return made[0]
    seen = here.sites.of("loaders")
    if seen and here.elsewhere("loaders"):
        uncertain(f"the loader is made in `{seen[0].file}`, line {seen[0].line}, and nothing here says how")
    return uncertain("no call here makes the training loader")


def _makes_loaders(code: Code, call: cst.Call) -> bool:
    """`ImageDataLoaders.from_folder(...)` or `block.dataloaders(...)`."""
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "dataloaders":
        return True
    owner = code.name(call.func.value) or ""
    return owner.startswith("fastai.") and owner.endswith("DataLoaders") and call.func.attr.value.startswith("from_")


def workers_of(code: Code, call: cst.Call) -> str:
    """The source of the number of workers that a call asks for: `0` where it says nothing."""
    full = code.name(call.func)
    prefix = "dataloader_" if hugging(full) else "iterator_train__" if skorch(full) else ""
    given = argument(call, f"{prefix}num_workers", position("num_workers") if is_loader(full) else None)
    if given is None:
        refuse_splat(code, call, "num_workers")
    return value_of(code, given) or "0"


def only_with_workers(code: Code, call: cst.Call, value: str, otherwise: str) -> str:
    """The value, made to hold where there are workers: PyTorch refuses it where there are none."""
    workers = workers_of(code, call)
    if workers == "0":
        uncertain("the loader has no workers", code.line(call))
    if workers.isdecimal():
        return value
    simple = isinstance(cst.parse_expression(workers), cst.Name | cst.Attribute | cst.Call | cst.Subscript)
    wrapped = workers if simple else f"({workers})"
    return f"{value} if {wrapped} else {otherwise}" if value != "True" else f"{wrapped} > 0"
