"""An optimizer is built anew in every epoch or batch.

Looks for:  `torch.optim.X(model.parameters())` in the body of a loop over epochs or batches in which it also steps, for a
            model that was made outside of it.
Wrong:      `for epoch in range(9): opt = Adam(model.parameters()); ...`: moments and schedule start again each time.
Right:      build it once, before the loop.
Not this:   a loop over folds, seeds or settings that makes its own model; an optimizer of an input; one that is made only
            under a condition, such as a change of phase.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Loop, Python, method


@lint(
    fix="build the optimizer once, before the loop",
    layer="optimisation",
    stage="settings",
    confidence=0.8,
)
def rebuilt_optimizer(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.optim.*"):
        statement = source.statement(call)
        loop = source.loop(call)
        if loop is None or statement not in loop.body or not isinstance(statement, ast.Assign):
            continue
        model = _model(call)
        name = ast.unparse(statement.targets[0])
        steps = any(method(each) == (name, "step") for each in source.under(loop, ast.Call))
        if model and steps and _counts_epochs(loop) and not _changes(source, loop, model):
            yield Hit(call, f"`{name}` is built anew in every round of the loop, and forgets what it has gathered")


def _model(call: ast.Call) -> str:
    given = call.args[0] if call.args else None
    owner, name = method(given) if given is not None else ("", "")
    return owner if name == "parameters" else ""


def _counts_epochs(loop: Loop) -> bool:
    if isinstance(loop, ast.While):
        return False
    target = ast.unparse(loop.target).lower()
    return "epoch" in target or any(word in ast.unparse(loop.iter).lower() for word in ("epoch", "loader"))


def _changes(source: Python, loop: Loop, model: str) -> bool:
    """Whether the loop makes the model, resets it, or decides anew what of it is trained."""
    root = model.partition(".")[0]
    for node in source.under(loop, ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Store) and ast.unparse(node).partition(".")[0] == root:
            return True
    words = {"load_state_dict", "apply", "reset_parameters", "requires_grad_", "reset", "unfreeze", "prune"}
    return any(method(each)[1] in words for each in source.under(loop, ast.Call))


BAD = (
    """\
import torch
model = Net()
for epoch in range(10):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        f(model(x), y).backward()
        optimizer.step()
""",
)
GOOD = (
    """\
import torch
for fold in range(5):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.step()
""",
    """\
import torch
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    optimizer.step()
""",
    """\
import torch
for epoch in range(10):
    if epoch == 5:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer.step()
""",
)
