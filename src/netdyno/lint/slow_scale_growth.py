"""The loss scale recovers too slowly.

Looks for:  `GradScaler(growth_factor=...)` with a factor below 1.1.
Wrong:      `GradScaler(growth_factor=1.001, growth_interval=1000)`: one halving takes 693 intervals to make good.
Right:      the defaults: factor 2, interval 2000.
Not this:   other settings; a factor above.
"""

from collections.abc import Iterator
from math import log

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, constant

# A halving is made good after seven intervals at this factor; below, the scale is never where it should be.
LEAST = 1.1


@lint(
    fix="keep the defaults, `growth_factor=2.0` and `growth_interval=2000`",
    layer="optimisation",
    stage="settings",
    ledger=("C-087",),
    confidence=REMARK,
)
def slow_scale_growth(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.*.GradScaler", "torch.*.amp.GradScaler"):
        factor = next((constant(each.value) for each in call.keywords if each.arg == "growth_factor"), None)
        if isinstance(factor, float) and 1 < factor < LEAST:
            yield Hit(call, f"after one halving the loss scale needs {log(2) / log(factor):.0f} intervals to recover")


BAD = ('import torch\nscaler = torch.amp.GradScaler("cuda", growth_factor=1.001, growth_interval=1000)\n',)
GOOD = (
    'import torch\nscaler = torch.amp.GradScaler("cuda")\n',
    'import torch\nscaler = torch.amp.GradScaler("cuda", growth_factor=1.5)\n',
)
