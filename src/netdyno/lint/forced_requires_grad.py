"""A loss without a graph is told to require gradients.

Looks for:  `loss.requires_grad = True` or `loss.requires_grad_()` on a computed value on which `backward()` is called.
Wrong:      `loss = (pred.argmax(1) != y).float().mean(); loss.requires_grad = True; loss.backward()`: no gradient reaches
            the model, the error is only silenced.
Right:      compute the loss from the model's scores with differentiable functions.
Not this:   an input or a parameter that is meant to be a leaf, of which something else is differentiated.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, constant, method

# What makes a leaf on purpose: then `requires_grad` is meant.
LEAVES = ("torch.tensor", "torch.zeros*", "torch.ones*", "torch.rand*", "torch.empty*", "torch.full*", "torch.nn.*")


@lint(
    fix="remove it, and compute the loss from the model's scores: without a graph nothing is learnt",
    layer="optimisation",
    stage="loss",
    confidence=0.95,
    watched=("graphless-loss", "detached-loss"),
)
def forced_requires_grad(source: Python) -> Iterator[Hit]:
    for statement, name in _forced(source):
        scope = source.function(statement)
        backward = any(
            method(call) == (name.id, "backward") and source.function(call) is scope
            for call in source.methods("backward")
        )
        # A function of the script's own may hand the loss to whoever calls `backward()`.
        backward = backward or (
            "loss" in name.id and _returned(source, scope, name.id) and bool(source.methods("backward"))
        )
        value = source.value(name)
        if backward and isinstance(value, ast.Call | ast.BinOp) and not _leaf(source, value):
            yield Hit(statement, f"`{name.id}` has no graph of its own: `requires_grad` only silences the error")


def _forced(source: Python) -> Iterator[tuple[ast.stmt, ast.Name]]:
    for each in source.of(ast.Assign):
        target = each.targets[0]
        on = isinstance(target, ast.Attribute) and target.attr == "requires_grad" and constant(each.value) is True
        if on and isinstance(target.value, ast.Name):  # type: ignore[attr-defined]
            yield each, target.value  # type: ignore[attr-defined]
    for call in source.methods("requires_grad_"):
        assert isinstance(call.func, ast.Attribute)
        off = bool(call.args) and constant(call.args[0]) is False
        if isinstance(call.func.value, ast.Name) and not off:
            yield source.statement(call), call.func.value


def _returned(source: Python, scope: ast.AST, name: str) -> bool:
    returns = [each for each in source.of(ast.Return) if source.function(each) is scope]
    return any(isinstance(each.value, ast.Name) and each.value.id == name for each in returns)


def _leaf(source: Python, value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and (value in source.calls(*LEAVES) or method(value)[1] in {"clone", "detach"})


BAD = (
    """\
for x, y in loader:
    loss = (model(x).argmax(1) != y).float().mean()
    loss.requires_grad = True
    loss.backward()
""",
    """\
def step(x, y):
    loss = criterion(model(x).detach(), y)
    loss.requires_grad_(True)
    loss.backward()
""",
    """\
def batch_loss(out, target):
    loss = (out.argmax(1) != target).float().mean()
    loss.requires_grad = True
    return loss
batch_loss(model(x), y).backward()
""",
)
GOOD = (
    """\
def f(x):
    y = g(x)
    y.requires_grad = True
    return y
f(x).backward()
""",
    """\
import torch
x = torch.rand(4)
x.requires_grad = True
y = (x * x).sum()
y.backward()
""",
    """\
for p in model.parameters():
    p.requires_grad = True
loss = criterion(model(x), y)
loss.backward()
""",
    """\
x = image.clone()
x.requires_grad_(True)
x.backward(direction)
""",
)
