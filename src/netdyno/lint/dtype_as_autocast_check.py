"""Mixed precision is checked by the dtype of a parameter.

Looks for:  a comparison of a parameter's `dtype` with half precision inside an autocast block.
Wrong:      `next(model.parameters()).dtype == torch.float16` under autocast: parameters stay float32, so it is never true.
Right:      look at the dtype of an output, or `torch.is_autocast_enabled()`.
Not this:   models that are in half precision themselves.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

HALF = ("torch.float16", "torch.half", "torch.bfloat16")


@lint(
    fix="look at the dtype of an output, or ask `torch.is_autocast_enabled()`",
    layer="compute",
    stage="note",
    ledger=("C-015",),
    confidence=0.8,
)
def dtype_as_autocast_check(source: Python) -> Iterator[Hit]:
    for block in source.of(ast.With):
        if not any("autocast" in ast.unparse(item.context_expr) for item in block.items) or source.has_word(".half()"):
            continue
        for each in source.under(block, ast.Compare):
            left = ast.unparse(each.left)
            if ".parameters()" in left and left.endswith(".dtype") and source.name(each.comparators[0]) in HALF:
                yield Hit(each, f"`{left}` is float32 under autocast as well: the comparison is never true")


BAD = (
    """\
import torch
with torch.autocast("cuda"):
    y = model(x)
    assert next(model.parameters()).dtype == torch.float16
""",
)
GOOD = (
    'import torch\nwith torch.autocast("cuda"):\n    y = model(x)\n    assert y.dtype == torch.float16\n',
    "import torch\nif next(model.parameters()).dtype == torch.float16:\n    x = x.half()\n",
)
