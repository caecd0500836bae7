"""Gradients are cleared between `backward()` and `step()`.

Looks for:  `backward()`, `zero_grad()` and `step()` of the same optimizer in this order in one block.
Wrong:      `loss.backward(); opt.zero_grad(); opt.step()`: the step sees no gradient, nothing is learnt.
Right:      `opt.zero_grad(); loss.backward(); opt.step()`
Not this:   another optimizer that is cleared in between; a second `backward()` behind the clearing.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method


@lint(
    fix="move `zero_grad()` in front of `backward()`, or behind `step()`",
    layer="optimisation",
    stage="order",
    confidence=0.95,
    watched=("cleared-before-step",),
)
def zeroed_before_step(source: Python) -> Iterator[Hit]:
    for call in source.methods("zero_grad"):
        block = source.block(call)
        here = source.statement(call)
        if not (isinstance(here, ast.Expr) and here.value is call):
            continue
        owner = method(call)[0]
        before, after = block[: block.index(here)], block[block.index(here) + 1 :]
        backward = next((at for at in range(len(before) - 1, -1, -1) if _has(before[at], "backward")), None)
        if backward is None or any(method(each)[1] == "step" for each in before[backward:]):
            continue
        step = next((at for at, each in enumerate(after) if method(each) == (owner, "step")), None)
        if step is not None and not any(_works(each) for each in after[:step]):
            yield Hit(call, f"`{owner}` loses its gradients between `backward()` and `{owner}.step()`")


def _has(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Expr) and method(statement)[1] == name


def _works(statement: ast.stmt) -> bool:
    """Whether a statement may bring gradients again, or whatever a call of somebody's own may do."""
    names = {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return any("backward" in name or "grad" in name for name in names)


BAD = (
    "for x, y in loader:\n    loss = f(x, y)\n    loss.backward()\n    opt.zero_grad()\n    opt.step()\n",
    "for x, y in loader:\n    f(x, y).backward()\n    opt.zero_grad(set_to_none=True)\n    print(1)\n    opt.step()\n",
)
GOOD = (
    "for x, y in loader:\n    opt.zero_grad()\n    f(x, y).backward()\n    opt.step()\n",
    "for x, y in loader:\n    f(x, y).backward()\n    opt.step()\n    opt.zero_grad()\n",
    "a.zero_grad()\nf(x).backward()\na.step()\nb.zero_grad()\ng(x).backward()\nb.step()\n",
    "f(x).backward()\nb.zero_grad()\na.step()\ng(x).backward()\nb.step()\n",
)
