"""The logarithm of a softmax is taken in two steps.

Looks for:  `log(softmax(x))`, in one expression or through a name.
Wrong:      `torch.log(torch.softmax(x, dim=1))`: a probability that rounds to zero becomes minus infinity.
Right:      `torch.log_softmax(x, dim=1)`
Not this:   `log_softmax` followed by `nll_loss`, which is right; a softmax to which something is added first; an entropy
            that also needs the probabilities and guards the logarithm.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, Splice, replaced


@lint(
    fix="take `log_softmax` in one step",
    layer="optimisation",
    stage="loss",
    ledger=("C-058",),
    confidence=0.8,
)
def log_of_softmax(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        if source.op(call) != "log":
            continue
        inner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if inner is not None and source.op(source.origin(inner)) == "softmax":
            says = "the logarithm of a softmax is minus infinity as soon as a probability rounds to zero"
            yield Hit(call, says, edits=_edits(source, call, inner))


def _edits(source: Python, call: ast.Call, inner: ast.expr) -> tuple[Splice, ...]:
    """`torch.log(torch.softmax(x, 1))` and `torch.softmax(x, 1).log()`; anything else a person should write."""
    if not isinstance(inner, ast.Call) or call.keywords or not isinstance(inner.func, ast.Attribute):
        return ()
    if inner.func.attr != "softmax" or inner.lineno != inner.end_lineno:
        return ()
    text = source.segment(inner)
    name = source.segment(inner.func)
    if text is None or name is None:
        return ()
    return (replaced(call, name.removesuffix("softmax") + "log_softmax" + text[len(name) :]),)


BAD = (
    "import torch\nloss = -(torch.log(torch.softmax(x, dim=1)) * y).sum()\n",
    "import torch\nlogp = torch.softmax(x, dim=1).log()\n",
    "import torch\nprobs = x.softmax(-1)\nlogp = torch.log(probs)\n",
)
GOOD = (
    "import torch\nlogp = torch.log_softmax(x, dim=1)\n",
    "import torch\nlogp = torch.log(torch.softmax(x, dim=1) + 1e-9)\n",
    "import torch\nprobs = torch.softmax(x, 1).clamp(min=1e-9)\nlogp = probs.log()\n",
    "import math\nvalue = math.log(3)\n",
)
