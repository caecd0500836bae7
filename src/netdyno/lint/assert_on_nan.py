"""Only NaN is looked for, by an assertion.

Looks for:  `assert not torch.isnan(x).any()`.
Wrong:      an assertion: infinities pass, and it vanishes under `python -O`.
Right:      `if not torch.isfinite(x).all(): raise ...`
Not this:   tests; tensors that hold infinities on purpose, such as masks of attention.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python


@lint(
    fix="raise unless `torch.isfinite(x).all()`",
    layer="optimisation",
    stage="note",
    ledger=("C-084",),
    confidence=0.5,
)
def assert_on_nan(source: Python) -> Iterator[Hit]:
    name = source.file.replace("\\", "/").rpartition("/")[2]
    if name.startswith("test_") or "isnan" not in source.text:
        return
    for each in source.of(ast.Assert):
        test = each.test
        if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not):
            continue
        calls = source.under(test, ast.Call)
        if any(source.name(call.func) == "torch.isnan" for call in calls):
            yield Hit(each, "infinities pass this assertion, and `python -O` leaves it out")


BAD = ("import torch\nassert not torch.isnan(output).any()\n",)
GOOD = (
    "import torch\nif not torch.isfinite(output).all():\n    raise ValueError\n",
    "import torch\nassert torch.isfinite(output).all()\n",
)
