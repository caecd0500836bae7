"""One line behind the imports that sets a switch of the whole process."""

from collections.abc import Callable

import libcst as cst

from netdyno.edits._tree import Code, after_imports, blanks, calls_of, line_of, setting, uncertain


def switched(code: Code, name: str, value: str, extra: tuple[str, ...] = ()) -> cst.Module:
    """The module that calls `torch.<name>(value)` behind its imports; the author's own call is changed where it is.

    `extra` are further lines, with `torch` for the name of the module.
    """
    calls = calls_of(code, lambda full: full == f"torch.{name}")
    if len(calls) > 1:
        uncertain(f"`{name}` is called more than once", code.line(calls[1]))
    torch = code.torch()
    missing = [line.replace("torch.", f"{torch or 'torch'}.", 1) for line in extra]
    missing = [line for line in missing if not _stands(code, line)]
    module = code.replaced({call: _with(code, call, value) for call in calls})
    lines = [] if calls else [f"{torch or 'torch'}.{name}({value})"]
    if not (lines := lines + missing):
        return module
    first, *rest = lines
    new = [line_of(first, blanks(1)), *map(line_of, rest)]
    if torch is None:
        _refuse_other_torch(code)
        new = [line_of("import torch"), *new]
    return after_imports(Code(module), new)


def _with(code: Code, call: cst.Call, value: str) -> Callable[[cst.Call], cst.Call]:
    if len(call.args) != 1 or call.args[0].star:
        uncertain("the switch is set already, in a way that is not read here", code.line(call))
    keyword = call.args[0].keyword
    return setting(code, call, keyword.value if keyword else "", value, 0)


def _stands(code: Code, line: str) -> bool:
    return any(isinstance(node, cst.Assign) and code.text(node) == line for node in code.nodes)


def _refuse_other_torch(code: Code) -> None:
    for node in code.nodes:
        if isinstance(node, cst.AssignTarget | cst.Param) and code.text(node).split("=")[0].strip() == "torch":
            uncertain("`torch` is the name of something else here", code.line(node))
