"""The loss is checked for NaN after the step.

Looks for:  `if isnan(loss): continue` behind `optimizer.step()` in the same block, and no check before it.
Wrong:      backward, step, then the check: the weights are NaN already.
Right:      check the loss, or the norm of the gradients, before `step()`.
Not this:   a check before the step; one that only writes a log; a gradient scaler, which skips such steps itself.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, method

CHECKS = ("isnan(", "isfinite(", "isinf(")


@lint(
    fix="check before `optimizer.step()`",
    layer="optimisation",
    stage="order",
    ledger=("C-020",),
    confidence=0.8,
)
def late_nan_check(source: Python) -> Iterator[Hit]:
    if not source.has_word("isnan(", "isfinite(", "isinf("):
        return
    for step in source.methods("step"):
        statement = source.statement(step)
        block = source.block(step)
        at = block.index(statement)
        if not _plain(source, step) or any(_checks(each) for each in block[:at]):
            continue
        for each in block[at + 1 :]:
            if isinstance(each, ast.If) and "loss" in ast.unparse(each.test) and _checks(each):
                goes_on = any(isinstance(node, ast.Continue) for node in each.body)
                stops = any(isinstance(node, ast.Break | ast.Raise) for node in each.body)
                if goes_on or stops:
                    yield Hit(
                        each, "the loss is checked after the weights were changed", None, None if goes_on else REMARK
                    )


def _plain(source: Python, step: ast.Call) -> bool:
    owner = method(step)[0].lower()
    return "opt" in owner and any(method(each)[1] == "backward" for each in source.block(step)) and bool(owner)


def _checks(statement: ast.stmt) -> bool:
    head = statement.test if isinstance(statement, ast.If) else statement
    return any(word in ast.unparse(head) for word in CHECKS)


BAD = (
    """\
import torch
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    optimizer.step()
    if torch.isnan(loss):
        continue
""",
)
GOOD = (
    """\
import torch
for x, y in loader:
    loss = f(model(x), y)
    if not torch.isfinite(loss):
        continue
    loss.backward()
    optimizer.step()
""",
    """\
import torch
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    optimizer.step()
    if torch.isnan(loss):
        print("nan")
""",
)
