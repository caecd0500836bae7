"""The threshold of clipping is taken from the weights of one layer.

Looks for:  `clip_grad_norm_` whose threshold is computed from a norm of a weight.
Wrong:      `clip_grad_norm_(params, 0.9 * torch.norm(model.fc.weight.data))`: weights say nothing of gradients.
Right:      a high percentile of the norms that were observed
Not this:   clipping layer by layer relative to its own weights.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument


@lint(
    fix="take a high percentile of the gradient norms that were observed",
    layer="optimisation",
    stage="settings",
    ledger=("C-055",),
    confidence=0.75,
)
def clip_by_weight(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.nn.utils.clip_grad_norm_"):
        threshold = argument(call, "max_norm", 1)
        text = ast.unparse(source.origin(threshold)) if threshold is not None else ""
        if (
            "norm(" in text
            and ".weight" in text
            and ".parameters()" in ast.unparse(call.args[0] if call.args else call)
        ):
            yield Hit(call, f"`{text}` is a size of weights, and the threshold is for gradients")


BAD = (
    """\
import torch
limit = 0.9 * torch.norm(model.fc.weight.data)
torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
""",
)
GOOD = ("import torch\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",)
