"""What a tensor's method gives back is thrown away.

Looks for:  a line that is only `x.detach()`, `x.unsqueeze(0)`, `x.permute(...)`, ... ; or `x.to(device)` for a name that
            the loop over a loader unpacks and the model uses afterwards.
Wrong:      `x.to(device)`: a tensor stays where it is, only a module is moved in place.
Right:      `x = x.to(device)`
Not this:   modules, whose `to` works in place; batches of classes that move themselves; methods that end in `_`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, Splice, method

PURE = {
    "argmax", "clamp", "contiguous", "detach", "expand", "flatten", "masked_fill", "permute", "requires_grad",
    "reshape", "squeeze", "transpose", "unsqueeze", "view", "softmax", "sigmoid", "long",
}  # fmt: skip
MOVES = {"to", "cuda"}


@lint(
    fix="assign it: `x = x.method(...)`",
    layer="compute",
    stage="structure",
    confidence=0.85,
)
def discarded_result(source: Python) -> Iterator[Hit]:
    if not source.imports("torch"):
        return
    for each in source.of(ast.Expr):
        owner, name = method(each)
        if not owner.isidentifier() or owner in source.imported or not isinstance(each.value, ast.Call):
            continue
        if (name in PURE and _is_tensor(source, each, owner)) or (name in MOVES and _unpacked(source, each, owner)):
            yield Hit(
                each, f"`{ast.unparse(each)}` changes nothing: its result is thrown away", edits=_edits(each, owner)
            )


def _is_tensor(source: Python, each: ast.Expr, owner: str) -> bool:
    """Whether the name holds what a call of torch gave, or is unpacked from a loader."""
    value = _last(source, each)
    if not isinstance(value, ast.Call):
        return _unpacked(source, each, owner)
    torchy = source.name(value.func).startswith("torch.") or bool(source.op(value))
    return torchy and not source.makes_module(value)


def _last(source: Python, each: ast.Expr) -> ast.expr | None:
    call = each.value
    name = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return source.value(name) if isinstance(name, ast.Name) else None


def _unpacked(source: Python, each: ast.Expr, owner: str) -> bool:
    """Whether `for x, y in loader` names it, it is given to a call afterwards, and nothing assigned it meanwhile."""
    loop = source.loop(each)
    if not isinstance(loop, ast.For) or "load" not in ast.unparse(loop.iter):
        return False
    names = [node for part in ast.walk(loop.target) if isinstance(part, ast.Tuple) for node in part.elts]
    if owner not in {ast.unparse(node) for node in names}:
        return False
    given = any(
        ast.unparse(arg) == owner
        for part in source.rest(each)
        for call in source.under(part, ast.Call)
        for arg in call.args
    )
    return given and len(source.assignments(source.function(each), owner)) == 1


def _edits(each: ast.Expr, owner: str) -> tuple[Splice, ...]:
    return (Splice(each.lineno, each.col_offset, each.lineno, each.col_offset, f"{owner} = "),)


BAD = (
    "import torch\nfor x, y in train_loader:\n    x.to(device)\n    y = y.to(device)\n    loss = f(model(x), y)\n",
    "import torch\nx = torch.rand(3)\nx.unsqueeze(0)\nprint(model(x))\n",
)
GOOD = (
    "import torch\nfor x, y in train_loader:\n    x = x.to(device)\n    loss = f(model(x), y)\n",
    "import torch\nmodel.to(device)\nfor batch in loader:\n    batch.to(device)\n    model(**batch)\n",
    "import torch\ncanvas.view()\nx = torch.rand(3)\nx.detach_()\n",
)
