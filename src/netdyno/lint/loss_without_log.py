"""A loss that expects log-probabilities is given something else.

Looks for:  `kl_div` or `nll_loss`, as function or module, whose first argument was made by a softmax or a sigmoid, or is
            a raw output of the model's last linear layer in the same line of a `Sequential`.
Wrong:      `F.kl_div(softmax(s / T, 1), softmax(t / T, 1))`
Right:      `F.kl_div(log_softmax(s / T, 1), softmax(t / T, 1), reduction="batchmean") * T * T`
Not this:   probabilities as the second argument of `kl_div`; a `.log()` behind the softmax.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument

EXPECTS = {"kl_div", "nll_loss"}


@lint(
    fix="give it `log_softmax(scores, dim=...)` as its first argument",
    layer="optimisation",
    stage="loss",
    ledger=("C-058", "C-113"),
    confidence=0.95,
    watched=("missing-log", "missing-log-in-divergence"),
)
def loss_without_log(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        op = source.op(call)
        given = argument(call, "input", 0) if op in EXPECTS else None
        if given is None:
            continue
        made = source.op(source.origin(given))
        if made in {"softmax", "sigmoid"}:
            yield Hit(call, f"`{ast.unparse(call.func)}` expects log-probabilities and is given the result of a {made}")


BAD = (
    """\
import torch.nn.functional as F
loss = F.kl_div(F.softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean")
""",
    """\
from torch import nn
kd = nn.KLDivLoss(reduction="batchmean")
for x, y in loader:
    p = student(x).softmax(1)
    q = teacher(x).softmax(1)
    loss = kd(p, q)
""",
    "import torch\nfrom torch import nn\nloss = nn.NLLLoss()(torch.softmax(x, 1), y)\n",
)
GOOD = (
    """\
import torch.nn.functional as F
loss = F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean") * T * T
""",
    "import torch.nn.functional as F\nloss = F.nll_loss(F.log_softmax(x, 1), y)\n",
    "import torch\nimport torch.nn.functional as F\nloss = F.nll_loss(torch.softmax(x, 1).log(), y)\n",
)
