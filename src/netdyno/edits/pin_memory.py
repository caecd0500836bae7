"""Write `pin_memory=True` into the training loader's call, and `non_blocking=True` where its batches are copied.

Certain:    `for images, target in loader:` over the loader's own name, with `images.to(device)` inside;
            `TrainingArguments(dataloader_pin_memory=...)` of transformers, which copies so itself.
Left alone: a loop that copies its batches elsewhere: one half without the other gains nothing.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import hugging
from netdyno.edits._loaders import places, with_setting
from netdyno.edits._tree import Code, argument, setting, uncertain
from netdyno.records.trial import Scalar

KINDS = ("loaders",)
STAGE = 6


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    calls = places(code, here, "pin_memory")
    new = {call: with_setting(code, call, "pin_memory", "True") for call in calls}
    for call in calls:
        if hugging(code.name(call.func)):
            continue
        made = code.assigned(call)
        copies = list(_copies(code, made.name)) if made is not None else []
        if not copies:
            uncertain(
                "no copy of the loader's batches to a device is seen here, and pinning alone gains nothing",
                code.line(call),
            )
        new |= {copy: setting(code, copy, "non_blocking", "True") for copy in copies}
    return code.replaced(new)


def _copies(code: Code, loader: str) -> Iterator[cst.Call]:
    """The calls `batch.to(device)` in loops over this loader, where `batch` is what the loop goes through."""
    for loop in code.nodes:
        if not isinstance(loop, cst.For) or not _over(code, loop, loader):
            continue
        names = {node.value for node in code.within(cst.Name, loop.target) if isinstance(node, cst.Name)}
        for call in code.calls():
            if loop in code.above(call) and _is_copy(call, names):
                yield call


def _over(code: Code, loop: cst.For, loader: str) -> bool:
    """`for … in loader`, or with `enumerate`, `tqdm` or the like around it."""
    source = loop.iter
    while isinstance(source, cst.Call) and source.args:
        source = source.args[0].value
    return code.text(source) == loader


def _is_copy(call: cst.Call, names: set[str]) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name) or func.value.value not in names:
        return False
    plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
    return (func.attr.value == "to" and len(plain) == 1 and argument(call, "copy") is None) or (
        func.attr.value == "cuda" and len(plain) <= 1
    )
