"""`track_running_stats` is switched off on a layer that exists already.

Looks for:  `layer.track_running_stats = False` without setting both buffers to None in the same function.
Wrong:      `m.track_running_stats = False`: the buffers stay, and evaluation still uses the old ones.
Right:      build the layer with `track_running_stats=False`, or set `running_mean` and `running_var` to None as well.
Not this:   the argument of a constructor; a class that sets its own.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, constant


@lint(
    fix="set `running_mean` and `running_var` to None as well, or build the layer without them",
    layer="inference",
    stage="use",
    ledger=("C-103",),
    confidence=0.75,
)
def idle_track_running_stats(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Assign):
        target = each.targets[0]
        off = (
            isinstance(target, ast.Attribute) and target.attr == "track_running_stats" and constant(each.value) is False
        )
        if not off or ast.unparse(target).startswith("self.track") or "running_mean = None" in source.text:
            continue
        if source.has_word(".track_running_stats = True"):  # for a while only: then it keeps the buffers from changing
            continue
        yield Hit(each, "the layer keeps its buffers, and evaluation still uses them")


BAD = ("for m in model.modules():\n    if isinstance(m, BatchNorm2d):\n        m.track_running_stats = False\n",)
GOOD = (
    "from torch import nn\nlayer = nn.BatchNorm2d(8, track_running_stats=False)\n",
    "m.track_running_stats = False\nm.running_mean = None\nm.running_var = None\n",
    "m.track_running_stats = False\ny = model(x)\nm.track_running_stats = True\n",
)
