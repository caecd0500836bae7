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
from netdyno.lint._python import Loop, Python, method, stored


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
    helpers = _helpers(source)
    for function in source.of(ast.FunctionDef) if source.calls("torch.optim.*") else ():
        made = _built_in(source, function, helpers)
        if made is not None and _per_epoch(source, function):
            yield Hit(
                made, f"`{function.name}` builds its optimizer anew in every epoch, which forgets what it has gathered"
            )


def _built_in(source: Python, function: ast.FunctionDef, helpers: set[str]) -> ast.Assign | None:
    """Where a function builds an optimizer of a model that it was given, and steps with it."""
    given = {arg.arg for arg in function.args.args}
    for each in function.body:
        if not isinstance(each, ast.Assign) or not isinstance(each.value, ast.Call):
            continue
        call = each.value
        ours = isinstance(call.func, ast.Name) and call.func.id in helpers
        model = ast.unparse(call.args[0]) if ours and call.args else _model(call)
        if not (ours or source.name(call.func).startswith("torch.optim.")) or (model not in given and model):
            continue
        names = {ast.unparse(node) for node in ast.walk(each.targets[0]) if isinstance(node, ast.Name)}
        loops = [loop for loop in function.body if isinstance(loop, ast.For)]
        steps = any(
            method(call)[1] == "step" and method(call)[0] in names
            for loop in loops
            for call in source.under(loop, ast.Call)
        )
        epochs = any("epoch" in ast.unparse(loop.target) for loop in loops)
        if model and steps and not epochs:
            return each
    return None


def _helpers(source: Python) -> set[str]:
    """The functions of the file that do little but make an optimizer and give it back."""
    around = [source.function(call) for call in source.calls("torch.optim.*")]
    functions = [each for each in around if isinstance(each, ast.FunctionDef)]
    return {
        each.name
        for each in functions
        if source.under(each, ast.Return) and len(source.under(each, ast.Call)) < 8  # longer ones do more than that
    }


def _per_epoch(source: Python, function: ast.FunctionDef) -> bool:
    """Whether a loop over epochs calls it, with a model that the loop does not make."""
    for call in source.of(ast.Call):
        loop = source.loop(call)
        if isinstance(call.func, ast.Name) and call.func.id == function.name and isinstance(loop, ast.For):
            given = {node.id for arg in call.args for node in ast.walk(arg) if isinstance(node, ast.Name)}
            renewed = {node.id for node in source.under(loop, ast.Name) if stored(node)}
            models = given & renewed - {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            if "epoch" in ast.unparse(loop.target) and not models:
                return True
    return False


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
        if stored(node) and ast.unparse(node).partition(".")[0] == root:
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
    """\
import torch
def make(model):
    return torch.optim.Adam(model.parameters(), lr=1e-3)
def train(model, loader):
    opt = make(model)
    for x, y in loader:
        opt.zero_grad()
        f(model(x), y).backward()
        opt.step()
for epoch in range(9):
    train(model, loader)
""",
)
GOOD = (
    """\
import torch
def train(model, loader):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
for seed in range(9):
    train(model, loader)
""",
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
