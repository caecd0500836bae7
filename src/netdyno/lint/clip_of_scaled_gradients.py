"""Gradients are clipped while they still carry the loss scale.

Looks for:  `scaler.scale(loss).backward()`, a clipping call and `scaler.step(optimizer)` in one function, and no
            `scaler.unscale_(optimizer)` before the clipping.
Wrong:      scale, backward, clip, step: the norm is 65536 times too large, so the clip leaves next to nothing.
Right:      `scaler.unscale_(optimizer)` between `backward()` and the clip.
Not this:   training without a scaler; `accelerator.clip_grad_norm_`, which unscales by itself; a scaler object of the
            project's own that clips inside.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method

CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad.*")


@lint(
    fix="call `scaler.unscale_(optimizer)` before clipping",
    layer="optimisation",
    stage="order",
    ledger=("C-002",),
    confidence=0.95,
    watched=("clip-before-unscale",),
)
def clip_of_scaled_gradients(source: Python) -> Iterator[Hit]:
    if "scale(" not in source.text:
        return
    scaled = [call for call in source.methods("backward") if _scaler(call)]
    for clip in source.calls(*CLIPS):
        scope = source.function(clip)
        scalers = {_scaler(call) for call in scaled if source.function(call) is scope and call.lineno < clip.lineno}
        steps = {method(call)[0] for call in source.methods("step") if source.function(call) is scope}
        unscaled = any(source.function(call) is scope for call in source.methods("unscale_"))
        if scalers & steps and not unscaled:
            yield Hit(clip, "the gradients are clipped while they are still multiplied by the loss scale")


def _scaler(call: ast.Call) -> str:
    """`scaler` of `scaler.scale(loss).backward()`."""
    owner, name = method(call.func.value) if isinstance(call.func, ast.Attribute) else ("", "")
    return owner if name == "scale" else ""


BAD = (
    """\
import torch
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    scaler.scale(loss_of(x, y)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
)
GOOD = (
    """\
import torch
scaler = torch.amp.GradScaler("cuda")
for x, y in loader:
    scaler.scale(loss_of(x, y)).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
    """\
import torch
for x, y in loader:
    loss_of(x, y).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
""",
)
