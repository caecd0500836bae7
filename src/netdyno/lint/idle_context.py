"""A context manager is made and not entered.

Looks for:  a line that is only `torch.no_grad()`, `torch.inference_mode()`, `torch.enable_grad()` or `torch.autocast(...)`;
            and `with torch.no_grad:` without its brackets.
Wrong:      `torch.no_grad()` on a line of its own: gradients stay on.
Right:      `with torch.no_grad():`
Not this:   `torch.set_grad_enabled(False)`, which works at once; decorators.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, replaced

CONTEXTS = (
    "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "torch.autocast", "torch.amp.autocast",
    "torch.cuda.amp.autocast", "torch.autograd.no_grad",
)  # fmt: skip


@lint(
    fix="enter it: `with torch.no_grad():`",
    layer="memory",
    stage="structure",
    ledger=("C-094",),
    confidence=0.95,
)
def idle_context(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Expr):
        if isinstance(each.value, ast.Call) and source.name(each.value.func) in CONTEXTS:
            yield Hit(each, f"`{ast.unparse(each)}` on a line of its own has no effect")
    for block in source.of(ast.With):
        for item in block.items:
            if isinstance(item.context_expr, ast.Attribute) and source.name(item.context_expr) in CONTEXTS:
                text = ast.unparse(item.context_expr)
                yield Hit(
                    block, f"`with {text}:` lacks its brackets", edits=(replaced(item.context_expr, f"{text}()"),)
                )


BAD = (
    "import torch\nmodel.eval()\ntorch.no_grad()\ny = model(x)\n",
    "import torch\nwith torch.no_grad:\n    y = model(x)\n",
)
GOOD = (
    "import torch\nwith torch.no_grad():\n    y = model(x)\n",
    "import torch\n@torch.no_grad()\ndef f(x):\n    return x\ntorch.set_grad_enabled(False)\n",
)
