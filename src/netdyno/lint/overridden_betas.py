"""A one-cycle schedule overrides the momentum that the optimizer was given.

Looks for:  an optimizer with `betas` or `momentum` written out, and `OneCycleLR` over it without `cycle_momentum`.
Wrong:      `Adam(..., betas=(0.9, 0.99))` with `OneCycleLR(opt, ...)`: the first beta is cycled between 0.85 and 0.95.
Right:      `cycle_momentum=False`, or no `betas` where the cycle is wanted.
Not this:   schedules that say what happens to the momentum.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, splat

SAYS = ("cycle_momentum", "base_momentum", "max_momentum")


@lint(
    fix="pass `cycle_momentum=False`, or leave the momentum to the schedule",
    layer="optimisation",
    stage="settings",
    ledger=("C-101",),
    confidence=REMARK,  # it may be wanted, and then it is only not written
)
def overridden_betas(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.optim.lr_scheduler.OneCycleLR"):
        given = argument(call, "optimizer", 0)
        made = source.made(given) if isinstance(given, ast.Name | ast.Attribute) else None
        if made is None or splat(call) or any(argument(call, name) is not None for name in SAYS):
            continue
        told = next((name for name in ("betas", "momentum") if argument(made, name) is not None), None)
        if told is not None and source.name(made.func).startswith("torch.optim."):
            yield Hit(call, f"`{told}` of the optimizer is overridden by the schedule's own cycle of momentum")


BAD = (
    """\
import torch
opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=100)
""",
)
GOOD = (
    """\
import torch
opt = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=100, cycle_momentum=False)
""",
    """\
import torch
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=1e-2, total_steps=100)
""",
)
