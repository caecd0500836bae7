"""A part of the model is replaced after the optimizer was built.

Looks for:  `opt = torch.optim.X(model.parameters())`, then `model = Net()` or `model.head = nn.Linear(...)` in the same
            function, and steps of that optimizer.
Wrong:      build the optimizer, then replace the head: the new parameters are not in it and never learn.
Right:      change the model first, build the optimizer last.
Not this:   an optimizer that is built again behind the change, `add_param_group`, or a wrapper around the same model.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method


@lint(
    fix="build the optimizer after the model has its final form",
    layer="optimisation",
    stage="structure",
    ledger=("C-006", "C-068"),
    confidence=0.9,
    watched=("stale-optimizer",),
)
def replaced_after_optimizer(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.optim.*"):
        statement = source.statement(call)
        given = call.args[0] if call.args else None
        model, name = method(given) if given is not None else ("", "")
        if name != "parameters" or not model.isidentifier() or not isinstance(statement, ast.Assign):
            continue
        optimizer = ast.unparse(statement.targets[0])
        behind = source.rest(call)
        for index, each in enumerate(behind):
            if _is_other(source, each, model) and _trains(source, behind[index + 1 :], optimizer):
                yield Hit(each, f"`{ast.unparse(each)[:60]}` comes after `{optimizer}` was built, so it is not trained")
            if optimizer in _stored(each):
                break


def _is_other(source: Python, statement: ast.stmt, model: str) -> bool:
    """Whether a statement puts a new module in the place of the model or of a part of it."""
    if not isinstance(statement, ast.Assign) or not source.makes_module(statement.value):
        return False
    target = ast.unparse(statement.targets[0])
    uses = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    # `model = Wrapper(model)` has the same parameters; a part of the old model in the new head as well.
    return (target == model or target.startswith(f"{model}.")) and model not in uses


def _trains(source: Python, statements: list[ast.stmt], optimizer: str) -> bool:
    steps = False
    for each in statements:
        if optimizer in _stored(each) or "add_param_group" in ast.unparse(each):
            return False
        steps |= any(method(call) == (optimizer, "step") for call in source.under(each, ast.Call))
    return steps


def _stored(statement: ast.stmt) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Store)}


BAD = (
    """\
import torch
from torch import nn
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
model.fc = nn.Linear(512, 10)
for x, y in loader:
    f(model(x), y).backward()
    opt.step()
""",
    """\
import torch
from torch import nn
class Net(nn.Module):
    pass
model = Net()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
model = Net()
for x, y in loader:
    f(model(x), y).backward()
    opt.step()
""",
)
GOOD = (
    """\
import torch
from torch import nn
model.fc = nn.Linear(512, 10)
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in loader:
    opt.step()
""",
    """\
import torch
from torch import nn
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
model = nn.DataParallel(model)
for x, y in loader:
    opt.step()
""",
    """\
import torch
from torch import nn
class Net(nn.Module):
    pass
model = Net()
opt = torch.optim.Adam(model.parameters())
opt.step()
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=1)
opt.step()
""",
)
