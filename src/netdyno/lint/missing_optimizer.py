"""A name that PyTorch does not have.

Looks for:  `torch.optim.LAMB` and other optimizers that people expect there.
Wrong:      `torch.optim.LAMB(...)`
Right:      another package's implementation, or SGD with momentum, Adafactor, states in 8 bit.
Not this:   a class of the same name from another package.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

MISSING = {"LAMB", "Lamb", "LARS", "Lion", "AdaBelief", "Ranger", "Sophia", "Shampoo", "AdamW8bit", "Adam8bit"}


@lint(
    fix="take it from a package that has it, or use an optimizer of `torch.optim`",
    layer="optimisation",
    stage="failure",
    ledger=("C-056",),
    confidence=0.9,
)
def missing_optimizer(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        full = source.name(call.func)
        if full.startswith("torch.optim.") and full.removeprefix("torch.optim.") in MISSING:
            yield Hit(call, f"`{full}` does not exist")


BAD = ("import torch\nopt = torch.optim.LAMB(model.parameters(), lr=1e-3)\n",)
GOOD = (
    "import torch\nopt = torch.optim.AdamW(model.parameters(), lr=1e-3)\n",
    "from other.optim import LAMB\nopt = LAMB(model.parameters())\n",
)
