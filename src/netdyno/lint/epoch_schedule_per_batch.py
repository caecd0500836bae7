"""A schedule that counts epochs is stepped after every batch.

Looks for:  `StepLR`, `MultiStepLR`, `ExponentialLR`, `CosineAnnealingLR` or `ReduceLROnPlateau` whose `step()` stands in
            the loop over batches, inside a loop over epochs.
Wrong:      `for x, y in loader: ...; opt.step(); sched.step()` with `StepLR(opt, step_size=10)`
Right:      `sched.step()` behind the loop over batches, or a length counted in updates.
Not this:   one-cycle, warm-up and lambda schedules, which count updates; lengths that name steps or multiply by the
            length of the loader; a step under a condition.
"""

import ast
import re
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, constant

LENGTH = {"StepLR": ("step_size", 1), "MultiStepLR": ("milestones", 1), "CosineAnnealingLR": ("T_max", 1)}
# So few updates are over within seconds; nobody counts updates in tens.
FEW = 50


@lint(
    fix="step the schedule once per epoch, behind the loop over batches",
    layer="optimisation",
    stage="settings",
    ledger=("C-122",),
    confidence=0.85,
    watched=("early-decay",),
)
def epoch_schedule_per_batch(source: Python) -> Iterator[Hit]:
    for step in source.methods("step"):
        assert isinstance(step.func, ast.Attribute)
        made = source.made(step.func.value)
        kind = source.name(made.func) if made is not None else ""
        if made is None or not kind.startswith("torch.optim.lr_scheduler."):
            continue
        loop = source.loop(step)
        if loop is None or source.statement(step) not in loop.body or not _per_batch(source, step):
            continue
        sure = _counts_epochs(kind.rpartition(".")[2], made)
        if sure:
            yield Hit(step, f"`{kind.rpartition('.')[2]}` counts epochs here and is stepped per batch", None, sure)


def _per_batch(source: Python, step: ast.Call) -> bool:
    """Whether the loop goes backward itself, and stands in a loop over epochs."""
    loop = source.loop(step)
    assert loop is not None
    outer = source.loop(loop)
    backward = any(source.loop(call) is loop for call in source.methods("backward"))
    return backward and isinstance(outer, ast.For) and "ep" in ast.unparse(outer.target).lower()


def _counts_epochs(kind: str, made: ast.Call) -> float:
    """How sure it is that the schedule's length is meant in epochs; 0 where it is not."""
    if kind == "ReduceLROnPlateau":
        return REMARK
    if kind == "ExponentialLR":
        gamma = constant(argument(made, "gamma", 1))
        return 0.8 if isinstance(gamma, float) and gamma < 0.99 else 0.0  # 0.99 per update is a factor of 0.37 in 100
    if kind not in LENGTH:
        return 0.0
    length = argument(made, *LENGTH[kind])
    if length is None:
        return 0.0
    text = ast.unparse(length).lower()
    if isinstance(number := constant(length), int):
        return 0.8 if number <= FEW and kind != "CosineAnnealingLR" else REMARK if number <= FEW else 0.0
    if re.search(r"len\(|step|iter|batch|updates|\*", text):
        return 0.0
    return 0.85 if "epoch" in text else 0.0


BAD = (
    """\
import torch
opt = torch.optim.SGD(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=10, gamma=0.1)
for epoch in range(30):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
        sched.step()
""",
    """\
from torch.optim.lr_scheduler import CosineAnnealingLR
sched = CosineAnnealingLR(opt, T_max=args.epochs)
for epoch in range(args.epochs):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
        sched.step()
""",
)
GOOD = (
    """\
from torch.optim.lr_scheduler import CosineAnnealingLR
sched = CosineAnnealingLR(opt, T_max=epochs * len(loader))
for epoch in range(epochs):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
        sched.step()
""",
    """\
import torch
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=10)
for epoch in range(30):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
    sched.step()
""",
    """\
import torch
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=90)
for epoch in range(30):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
        sched.step()
""",
)
