"""Scores are clamped before a loss that is stable without it.

Looks for:  `cross_entropy` or `binary_cross_entropy_with_logits` whose first argument was just clamped.
Wrong:      `F.cross_entropy(logits.clamp(-100, 100), y)`: where the clamp acts, the gradient is zero.
Right:      `F.cross_entropy(logits, y)`
Not this:   probabilities clamped away from zero before a plain logarithm.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument


@lint(
    fix="leave the clamp out: the loss works with log-softmax and does not overflow",
    layer="optimisation",
    stage="loss",
    ledger=("C-021",),
    confidence=REMARK,  # it is useless, and harms only where it acts
)
def clamped_logits(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        if source.op(call) not in {"cross_entropy", "bce_with_logits"}:
            continue
        given = argument(call, "input", 0)
        if given is not None and source.op(source.origin(given)) == "clamp":
            yield Hit(call, "clamped scores have no gradient where the clamp acts, and the loss is stable without it")


BAD = (
    "import torch.nn.functional as F\nloss = F.cross_entropy(model(x).clamp(-100, 100), y)\n",
    """\
import torch
from torch import nn
criterion = nn.CrossEntropyLoss()
def step(x, y):
    logits = torch.clamp(model(x), -50, 50)
    return criterion(logits, y)
""",
)
GOOD = (
    "import torch.nn.functional as F\nloss = F.cross_entropy(model(x), y)\n",
    "import torch\nloss = -torch.log(probs.clamp(min=1e-7))[range(n), y].mean()\n",
)
