"""Write `model.compile()` behind the line that makes the model.

In place, not `model = torch.compile(model)`: the model stays the same object, so the names in its checkpoints stay too.

Certain:    `model = Net(...)`, also with `.to(device)` behind, seen at its line or the only one of the file;
            `TrainingArguments(torch_compile=True)` of transformers.
Left alone: a model made in passing or returned by a function; a script that compiles already, or splits its model over
            processes, where what is to be compiled is the outer model.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import hugging
from netdyno.edits._tree import Assigned, Code, block_of, followed_by, models, only, setting, uncertain
from netdyno.records.trial import Scalar

KINDS = ("models",)
STAGE = 40
WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "DDP", "FSDP")


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    if (teller := only(code, hugging)) is not None:
        return _told(code, teller, settings)
    for call in code.calls():
        if code.text(call.func).endswith(WRAPPERS):
            uncertain("the model is wrapped here for several devices; compile the wrapped one by hand", code.line(call))
    made = models(code, here.lines("models"), elsewhere=here.elsewhere("models"))
    lines = {each.statement: f"{each.name}.compile({_arguments(settings)})" for each in made}
    if all(line in _calls(code) for line in lines.values()):
        return code.module
    for call in code.calls():
        if code.name(call.func) == "torch.compile" or _compiles(code, call, {each.name for each in made}):
            uncertain("the script compiles already", code.line(call))
    return code.replaced({_last(code, each): followed_by(lines[each.statement]) for each in made})


def _last(code: Code, made: Assigned) -> cst.CSTNode:
    """The line that makes the model, or the last of those behind it that move it: `model = model.to(...)`."""
    body = list(block_of(code, made.statement).body)
    last = body.index(made.statement)
    while last + 1 < len(body) and code.text(body[last + 1]).startswith(f"{made.name} = {made.name}.to("):
        last += 1
    return body[last]


def _told(code: Code, call: cst.Call, settings: Mapping[str, Scalar]) -> cst.Module:
    if settings.get("mode", "default") != "default" or settings.get("dynamic") is not None:
        uncertain("transformers takes these settings of the compiler in words of its own", code.line(call))
    return code.replaced({call: setting(code, call, "torch_compile", "True")})


def _arguments(settings: Mapping[str, Scalar]) -> str:
    mode, dynamic = settings.get("mode", "default"), settings.get("dynamic")
    parts = [f'mode="{mode}"'] if mode != "default" else []
    parts += [f"dynamic={dynamic}"] if dynamic is not None else []
    return ", ".join(parts)


def _calls(code: Code) -> set[str]:
    return {code.text(call) for call in code.calls()}


def _compiles(code: Code, call: cst.Call, names: set[str]) -> bool:
    return (
        isinstance(call.func, cst.Attribute)
        and call.func.attr.value == "compile"
        and code.text(call.func.value) in names
    )
