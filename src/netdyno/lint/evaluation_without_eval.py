"""A model with dropout or BatchNorm is evaluated in training mode, or left in evaluation mode.

Looks for:  a file that trains a model with dropout or BatchNorm layers of its own and scores it under `no_grad`, without
            any `eval()`; or `eval()` in the loop over epochs that trains, without any `train()`.
Wrong:      `with torch.no_grad(): acc = (model(x).argmax(1) == y)...` with dropout still on.
Right:      `model.eval()` before, `model.train()` after.
Not this:   a file that sets modes anywhere, by `eval`, `train(False)` or `training`; models without such layers.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

LAYERS = ("torch.nn.Dropout*", "torch.nn.BatchNorm*", "torch.nn.AlphaDropout", "torch.nn.SyncBatchNorm")
# Frameworks that set modes themselves.
FRAMEWORKS = ("lightning", "accelerate", "transformers", "ignite", "fastai", "skorch")
SCORES = ("argmax", "accuracy", ".max(1)", ".eq(", "correct")


@lint(
    fix="call `model.eval()` before evaluating and `model.train()` before training goes on",
    layer="inference",
    stage="use",
    ledger=("C-039", "C-040"),
    confidence=0.85,
    watched=("training-mode-evaluation",),
)
def evaluation_without_eval(source: Python) -> Iterator[Hit]:
    layers = source.calls(*LAYERS)
    if not source.trains or not layers or any(source.imports(name) for name in FRAMEWORKS):
        return
    modes = source.methods("eval")
    text = source.text
    if not modes and "train(False" not in text and ".training" not in text and "train(mode" not in text:
        for each in source.of(ast.With):
            block = ast.unparse(each)
            if "no_grad" in ast.unparse(each.items[0]) and _scores(block) and _calls_model(source, each):
                name = ast.unparse(layers[0].func)
                yield Hit(each, f"the model is scored without `eval()`, and it holds `{name}`")
                return
    yield from _left_in_evaluation(source, modes)


def _scores(block: str) -> bool:
    return any(word in block for word in SCORES) and "backward" not in block


def _calls_model(source: Python, each: ast.With) -> bool:
    return any(
        ast.unparse(call.func) in {"model", "net", "network", "self.model"} for call in source.under(each, ast.Call)
    )


def _left_in_evaluation(source: Python, modes: list[ast.Call]) -> Iterator[Hit]:
    if source.methods("train") or ".train" in source.text or "training" in source.text:
        return
    for call in modes:
        loop = source.loop(call)
        if loop is None or source.statement(call) not in loop.body:
            continue
        learns = [each for each in source.methods("backward") if each in source.under(loop, ast.Call)]
        if learns and isinstance(loop, ast.For) and "ep" in ast.unparse(loop.target):
            yield Hit(call, "the model is set to evaluation in the loop and never back to training")


BAD = (
    """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
for x, y in loader:
    opt.zero_grad()
    f(model(x), y).backward()
    opt.step()
with torch.no_grad():
    accuracy = (model(tx).argmax(1) == ty).float().mean()
""",
    """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
for epoch in range(9):
    for x, y in loader:
        opt.zero_grad()
        f(model(x), y).backward()
        opt.step()
    model.eval()
    score(model)
""",
)
GOOD = (
    """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
for epoch in range(9):
    model.train()
    f(model(x), y).backward()
    opt.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(tx).argmax(1) == ty).float().mean()
""",
    """\
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
f(model(x), y).backward()
opt.step()
with torch.no_grad():
    accuracy = (model(tx).argmax(1) == ty).float().mean()
""",
)
