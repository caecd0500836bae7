"""Probabilities go into a loss that expects raw scores.

Looks for:  `cross_entropy` or `binary_cross_entropy_with_logits`, as function or module, whose first argument was made by
            a softmax or a sigmoid: in the call, in the lines before it, or as the last thing the model does.
Wrong:      `probs = softmax(logits, 1); loss = cross_entropy(probs, y)`
Right:      `loss = cross_entropy(logits, y)`
Not this:   probabilities as the second argument (soft targets); a log-softmax before, which changes nothing; a softmax
            that only the evaluation uses.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument

WRONG = {"cross_entropy": {"softmax", "sigmoid"}, "bce_with_logits": {"softmax", "sigmoid"}}


@lint(
    fix="give the loss the raw scores: it applies its own log-softmax (or sigmoid)",
    layer="optimisation",
    stage="loss",
    ledger=("C-001", "C-003"),
    confidence=0.95,
    watched=("double-softmax",),
)
def softmax_before_cross_entropy(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        wrong = WRONG.get(source.op(call))
        given = argument(call, "input", 0) if wrong else None
        if wrong is None or given is None:
            continue
        made = _squashed(source, given, wrong)
        if made:
            yield Hit(call, f"`{ast.unparse(call.func)}` is given {made}, and squashes it a second time")


def _squashed(source: Python, given: ast.expr, wrong: set[str]) -> str | None:
    behind = source.origin(given)
    if not isinstance(behind, ast.Call):
        return None
    if source.op(behind) in wrong:
        return f"the result of a {source.op(behind)}"
    made = source.made(behind.func)
    last = _last(source, made) if made is not None and made is not behind else ""
    return f"the output of a model that ends in a {last}" if last in wrong else None


def _last(source: Python, made: ast.Call) -> str:
    """What a model does last, where its source says so; empty otherwise."""
    if source.name(made.func) == "torch.nn.Sequential" and made.args:
        last = made.args[-1]
        return source.op(ast.Call(last, [], [])) if isinstance(last, ast.Call) else ""
    owner = source.modules.get(made.func.id) if isinstance(made.func, ast.Name) else None
    if owner is None:
        return ""
    forward = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    returns = [each.value for each in source.under(forward, ast.Return)] if forward is not None else []
    ops = {source.op(source.origin(value)) if value is not None else "" for value in returns}
    return ops.pop() if len(ops) == 1 else ""


BAD = (
    """\
import torch.nn.functional as F
for x, y in loader:
    probs = F.softmax(model(x), dim=1)
    loss = F.cross_entropy(probs, y)
""",
    """\
from torch import nn
criterion = nn.CrossEntropyLoss()
def step(model, x, y):
    return criterion(model(x).softmax(-1), y)
""",
    """\
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        x = self.body(x)
        return torch.softmax(x, dim=-1)
model = Net().to("cpu")
loss_fn = nn.CrossEntropyLoss()
for x, y in loader:
    out = model(x)
    loss = loss_fn(out, y)
""",
    """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
loss = nn.BCEWithLogitsLoss()(model(x), y)
""",
)
GOOD = (
    """\
import torch.nn.functional as F
for x, y in loader:
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    probs = F.softmax(logits, dim=1)
""",
    """\
import torch.nn.functional as F
loss = F.cross_entropy(student(x), F.softmax(teacher(x), dim=1))
""",
    """\
import torch.nn.functional as F
loss = F.nll_loss(F.log_softmax(model(x), dim=1), y)
same = F.cross_entropy(F.log_softmax(model(x), dim=1), y)
""",
    """\
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        x = self.body(x)
        if self.training:
            return x
        return torch.softmax(x, dim=-1)
model = Net()
loss = nn.CrossEntropyLoss()(model(x), y)
""",
)
