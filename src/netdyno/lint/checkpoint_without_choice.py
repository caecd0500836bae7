"""Activation checkpointing does not say which of its two forms it means.

Looks for:  `torch.utils.checkpoint.checkpoint(...)` or `checkpoint_sequential(...)` without `use_reentrant`.
Wrong:      `checkpoint(block, x)`: a warning today; the old form loses gradients where no input requires them.
Right:      `checkpoint(block, x, use_reentrant=False)`
Not this:   a call that passes it on; a function of the same name.
"""

from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, splat

NAMES = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")


@lint(
    fix="pass `use_reentrant=False`",
    layer="memory",
    stage="note",
    ledger=("C-116",),
    confidence=REMARK,  # both forms are right for most models
)
def checkpoint_without_choice(source: Python) -> Iterator[Hit]:
    for call in source.calls(*NAMES):
        if argument(call, "use_reentrant") is None and not splat(call):
            yield Hit(call, "checkpointing is not told which form to take")


BAD = ("from torch.utils.checkpoint import checkpoint\ny = checkpoint(block, x)\n",)
GOOD = (
    "from torch.utils.checkpoint import checkpoint\ny = checkpoint(block, x, use_reentrant=False)\n",
    "from torch.utils.checkpoint import checkpoint\ny = checkpoint(block, x, **options)\n",
)
