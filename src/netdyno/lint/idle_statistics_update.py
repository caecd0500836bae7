"""BatchNorm statistics are renewed in a way that renews nothing, or with one batch.

Looks for:  a loop over data that throws the model's output away behind `eval()`, in a function that resets or speaks of
            BatchNorm statistics; and `model.train(); model(x); model.eval()` in three lines.
Wrong:      `model.eval(); for x, _ in loader: model(x)`: in evaluation the statistics stand still.
Right:      reset them, `momentum = None`, BatchNorm in training mode, many batches under `no_grad`.
Not this:   warm-up for timing; calibration of a quantised model; `update_bn` of `torch.optim.swa_utils`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method


@lint(
    fix="reset the statistics, put the BatchNorm layers in training mode and run many batches under `no_grad`",
    layer="inference",
    stage="use",
    ledger=("C-018", "C-104"),
    confidence=0.8,
)
def idle_statistics_update(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Expr):
        model = _thrown_away(each)
        if model is None:
            continue
        loop = source.loop(each)
        if loop is not None and each in loop.body and _still(source, each, model):
            yield Hit(each, f"`{model}` is in evaluation, so its BatchNorm statistics stand still in this loop")
        elif loop is None or loop.body[0] is not each:
            block = source.block(each)
            at = block.index(each)
            before = method(block[at - 1]) if at else ("", "")
            after = method(block[at + 1]) if at + 1 < len(block) else ("", "")
            if before == (model, "train") and after == (model, "eval"):
                yield Hit(each, f"one batch moves the BatchNorm statistics of `{model}` by a tenth, with dropout on")


def _thrown_away(each: ast.Expr) -> str | None:
    """`model` of a line that is only `model(x)`."""
    call = each.value
    named = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.args
    return call.func.id if named and call.func.id in {"model", "net", "network"} else None  # type: ignore[attr-defined]


def _still(source: Python, each: ast.stmt, model: str) -> bool:
    scope = source.function(each)
    calls = [method(call) for call in source.under(scope, ast.Call) if call.lineno < each.lineno]
    modes = [name for owner, name in calls if owner == model and name in {"train", "eval"}]
    # Somebody else's `train()` may be that of the layers in question.
    others = any(name == "train" and owner != model for owner, name in calls)
    code = ast.unparse(scope).lower() if not isinstance(scope, ast.Module) else ""
    means = "reset_running_stats" in code or any(
        word in getattr(scope, "name", "").lower() for word in ("bn", "batchnorm", "norm")
    )
    return bool(modes) and modes[-1] == "eval" and not others and means and ".train(" not in code


BAD = (
    """\
import torch
def recalibrate_bn(model, loader):
    model.eval()
    with torch.no_grad():
        for x, _ in loader:
            model(x)
""",
    "model.train()\nmodel(x)\nmodel.eval()\n",
)
GOOD = (
    """\
import torch
def recalibrate_bn(model, loader):
    model.eval()
    for m in model.modules():
        if isinstance(m, torch.nn.BatchNorm2d):
            m.reset_running_stats()
            m.train()
    with torch.no_grad():
        for x, _ in loader:
            model(x)
""",
    """\
import torch
def warm_up(model, x):
    model.eval()
    for _ in range(10):
        model(x)
""",
    """\
def calibrate(model, loader):
    model.eval()
    for x, _ in loader:
        model(x)
""",
)
