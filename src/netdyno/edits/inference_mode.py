"""Write `torch.inference_mode()` where evaluation says `torch.no_grad()`.

Certain:    the block or the decorated function around an evaluation that was seen; without one, the only `no_grad` of
            the file if its function also calls `.eval()`.
Left alone: a block that keeps tensors beyond itself, since those can never be used for training again.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._tree import Code, uncertain
from netdyno.records.trial import Scalar

KINDS = ("evaluations",)
STAGE = 50
NO_GRAD = {"torch.no_grad", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
Around = cst.With | cst.FunctionDef


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    names = {node: around for node in code.nodes if (around := _without_gradients(code, node)) is not None}
    names = _seen(code, names, here) if here.sites.of("evaluations") else _only(code, names)
    torch = code.torch()
    if names and torch is None:
        uncertain("the module `torch` is not imported under a name of its own here")
    for node, around in names.items():
        _refuse_keeping(code, around, code.line(node))
    return code.replaced({node: lambda _: cst.parse_expression(f"{torch}.inference_mode") for node in names})


def _without_gradients(code: Code, node: cst.CSTNode) -> Around | None:
    """What this `torch.no_grad` is around: the `with` block or the function it decorates."""
    if not isinstance(node, cst.Name | cst.Attribute) or code.name(node) not in NO_GRAD:
        return None
    for parent in code.above(node):
        if isinstance(parent, cst.With | cst.FunctionDef):
            return parent
        if not isinstance(parent, cst.Call | cst.WithItem | cst.Decorator):
            return None
    return None


def _seen(code: Code, names: dict[cst.CSTNode, Around], here: Here) -> dict[cst.CSTNode, Around]:
    found: dict[cst.CSTNode, Around] = {}
    for line in here.lines("evaluations"):
        around = {node: block for node, block in names.items() if code.spans(block, line)}
        if not around and not _done(code, line):
            uncertain(f"line {line} evaluates, and no `torch.no_grad()` of this file stands around it", line)
        found |= around
    return found


def _done(code: Code, line: int) -> bool:
    return any(
        code.name(node) == "torch.inference_mode" and any(code.spans(block, line) for block in code.above(node))
        for node in code.nodes
        if isinstance(node, cst.Attribute)
    )


def _only(code: Code, names: dict[cst.CSTNode, Around]) -> dict[cst.CSTNode, Around]:
    if not names and any(
        code.name(node) == "torch.inference_mode" for node in code.nodes if isinstance(node, cst.Attribute)
    ):
        return {}
    if len(names) != 1:
        uncertain(f"the file has {len(names)} `no_grad`, and no evaluation was seen in one of them")
    ((node, around),) = names.items()
    function = around if isinstance(around, cst.FunctionDef) else code.function(node)
    if not any(code.text(call.func).endswith(".eval") for call in code.calls() if function in code.above(call)):
        uncertain("nothing says that the block without gradients is an evaluation", code.line(node))
    return names


def _refuse_keeping(code: Code, around: Around, line: int) -> None:
    for target in code.within(cst.AssignTarget, around):
        if isinstance(target, cst.AssignTarget) and code.text(target.target).startswith("self."):
            uncertain(f"the block keeps `{code.text(target.target)}` beyond itself", code.line(target))
    for kind in (cst.Global, cst.Nonlocal, cst.Yield):
        for node in code.within(kind, around):
            uncertain("the block keeps values beyond itself", code.line(node))
