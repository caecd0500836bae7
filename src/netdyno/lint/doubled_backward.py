"""One loss goes backward twice in one step, plain and scaled.

Looks for:  `loss.backward()` and `scaler.scale(loss).backward()` of the same loss, one behind the other.
Wrong:      both: the graph is gone at the second one, or its gradients are added with two different scales.
Right:      only `scaler.scale(loss).backward()`.
Not this:   two losses; the two branches of `if use_amp`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method


@lint(
    fix="keep the scaled one only",
    layer="optimisation",
    stage="order",
    ledger=("C-060",),
    confidence=0.95,
)
def doubled_backward(source: Python) -> Iterator[Hit]:
    if "scale(" not in source.text:
        return
    for call in source.methods("backward"):
        loss = _loss(call)
        same = [other for other in source.methods("backward") if other is not call and _loss(other) == loss]
        behind = source.rest(call)
        for other in same:
            between = behind[: behind.index(source.statement(other))] if source.statement(other) in behind else None
            if between is not None and _scaled(call) != _scaled(other) and not _again(between, loss):
                yield Hit(other, f"`{loss}` goes backward a second time in the same step, with another scale")


def _loss(call: ast.Call) -> str:
    assert isinstance(call.func, ast.Attribute)
    inner = call.func.value
    return ast.unparse(inner.args[0]) if _scaled(call) and isinstance(inner, ast.Call) else ast.unparse(inner)


def _scaled(call: ast.Call) -> bool:
    inner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(inner, ast.Call) and method(inner)[1] == "scale" and len(inner.args) == 1


def _again(statements: list[ast.stmt], loss: str) -> bool:
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == loss
        for each in statements
        for node in ast.walk(each)
    )


BAD = ("loss = f(x)\nloss.backward()\nscaler.scale(loss).backward()\n",)
GOOD = (
    "if amp:\n    scaler.scale(loss).backward()\nelse:\n    loss.backward()\n",
    "scaler.scale(loss_d).backward()\nscaler.scale(loss_g).backward()\n",
    "scaler.scale(loss).backward()\nscaler.step(opt)\nloss = f(y)\nloss.backward()\n",
)
