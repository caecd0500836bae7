"""A training loop never clears its gradients.

Looks for:  a loop with `backward()` and `step()`, in a file where nothing clears gradients; or where the only clearing
            stands in the loop around it, once for many steps.
Wrong:      `for x, y in loader: loss.backward(); opt.step()`: each step applies the sum of all gradients so far.
Right:      `opt.zero_grad()` once for each `step()`.
Not this:   accumulation, where `step()` comes every few batches; a closure; gradients set to None or replaced by hand;
            frameworks and helpers that clear by themselves.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Loop, Python, method

# Words that say that the clearing is done somewhere, or that the gradients are handled by hand.
CLEARS = (".grad = None", ".grad=None", ".grad.zero_", ".grad.fill_", "grad.data.zero_", "autograd.grad", "closure")
FRAMEWORKS = ("lightning", "accelerate", "deepspeed", "apex", "colossalai", "fairscale", "xm.optimizer_step")


@lint(
    fix="call `optimizer.zero_grad()` before each `backward()`",
    layer="optimisation",
    stage="order",
    confidence=0.9,
    watched=("uncleared-gradients",),
)
def missing_zero_grad(source: Python) -> Iterator[Hit]:
    if not source.trains or source.has_word(*CLEARS, *FRAMEWORKS):
        return
    for step in source.methods("step"):
        loop = source.loop(step)
        if loop is None or not _optimizer(source, step) or source.statement(step) not in loop.body:
            continue
        backward = [call for call in source.methods("backward") if source.statement(call) in loop.body]
        if not backward or _clears(source, loop):
            continue
        if not source.has_word("zero_grad"):
            yield Hit(step, "the gradients of all batches so far are added up: nothing in this file clears them")
        elif _once_around(source, loop):
            yield Hit(step, "the gradients are cleared once for a whole loop of steps, so they add up over it")


def _optimizer(source: Python, step: ast.Call) -> bool:
    """Whether it is an optimizer that steps: made by `torch.optim`, or called like one."""
    assert isinstance(step.func, ast.Attribute)
    owner = step.func.value
    made = source.made(owner)
    if made is not None:
        return source.name(made.func).startswith("torch.optim.") and "lr_scheduler" not in source.name(made.func)
    return ast.unparse(owner).rpartition(".")[2] in {"opt", "optimizer", "optim", "optimiser"}


def _clears(source: Python, loop: Loop) -> bool:
    """Whether the loop calls something that clears, or something of the file's own that may."""
    if any(method(call)[1] == "zero_grad" for call in source.under(loop, ast.Call)):
        return True
    own = {each.name for each in source.of(ast.FunctionDef) if "zero_grad" in ast.unparse(each)}
    return any(ast.unparse(call.func).rpartition(".")[2] in own for call in source.under(loop, ast.Call))


def _once_around(source: Python, loop: Loop) -> bool:
    outer = source.loop(loop)
    scope = source.function(loop)
    clearing = [call for call in source.methods("zero_grad") if source.function(call) is scope]
    return outer is not None and bool(clearing) and all(source.loop(call) is outer for call in clearing)


BAD = (
    """\
import torch
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    opt.step()
""",
    """\
import torch
def train(model, optimizer):
    for epoch in range(3):
        optimizer.zero_grad()
        for x, y in loader:
            criterion(model(x), y).backward()
            optimizer.step()
""",
)
GOOD = (
    """\
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
""",
    """\
for i, (x, y) in enumerate(loader):
    (criterion(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    """\
for x, y in loader:
    criterion(model(x), y).backward()
    optimizer.step()
    for p in model.parameters():
        p.grad = None
""",
    """\
def clear(optimizer):
    optimizer.zero_grad()
for x, y in loader:
    clear(optimizer)
    criterion(model(x), y).backward()
    optimizer.step()
""",
    """\
for epoch in range(9):
    optimizer.zero_grad()
    for x, y in loader:
        criterion(model(x), y).backward()
    optimizer.step()
""",
)
