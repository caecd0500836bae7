"""Dropout is on in evaluation as well.

Looks for:  `F.dropout(x, p)` without `training`, whose default is on, in the method of an `nn.Module`; and
            `scaled_dot_product_attention` with a fixed `dropout_p` above zero.
Wrong:      `F.dropout(x, 0.5)`
Right:      `F.dropout(x, 0.5, training=self.training)`
Not this:   a call that says `training`, also `training=True` for sampling on purpose; one that stands under
            `if self.training`; `alpha_dropout`, whose default is off.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, constant, splat, with_keyword

FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout")
NAMES = tuple(f"torch.nn.functional.{name}" for name in FUNCTIONS if name != "feature_alpha_dropout")
ATTENTION = "torch.nn.functional.scaled_dot_product_attention"


@lint(
    fix="pass `training=self.training`",
    layer="inference",
    stage="use",
    ledger=("C-014",),
    confidence=0.9,
    watched=("always-on-dropout", "random-evaluation"),
)
def dropout_always_on(source: Python) -> Iterator[Hit]:
    for call in source.calls(*NAMES):
        if argument(call, "training", 2) is not None or splat(call) or constant(argument(call, "p", 1)) == 0:
            continue
        if _conditional(source, call):
            continue
        inside = source.in_module(call)
        yield Hit(
            call,
            f"`{ast.unparse(call.func)}` is not told whether the model trains, so it drops in evaluation too",
            confidence=None if inside else REMARK,
            edits=(with_keyword(call, source, "training=self.training"),) if inside and _has_self(source, call) else (),
        )
    for call in source.calls(ATTENTION):
        rate = argument(call, "dropout_p", 4)
        if isinstance(constant(rate), float) and constant(rate) > 0 and not _conditional(source, call):
            yield Hit(
                call,
                f"attention drops with {constant(rate)} in evaluation too",
                fix=f"pass `dropout_p={constant(rate)} if self.training else 0.0`",
            )


def _conditional(source: Python, call: ast.Call) -> bool:
    """Whether somebody asked before: `if self.training`, or a flag of the function's own."""
    for parent in source.above(call):
        if isinstance(parent, ast.If | ast.IfExp):
            return True
        if isinstance(parent, ast.FunctionDef):
            return False
    return False


def _has_self(source: Python, call: ast.Call) -> bool:
    scope = source.function(call)
    return isinstance(scope, ast.FunctionDef) and bool(scope.args.args) and scope.args.args[0].arg == "self"


BAD = (
    """\
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        x = F.dropout(F.relu(self.a(x)), 0.5)
        return F.dropout(x, p=0.2,)
""",
    """\
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
""",
    "import torch\nfrom torch.nn.functional import dropout\ndef block(x):\n    return dropout(x, 0.1)\n",
)
GOOD = (
    """\
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        x = F.dropout(x, 0.5, self.training)
        return F.dropout(x, p=0.5, training=True)
""",
    """\
import torch.nn.functional as F
from torch import nn
class Net(nn.Module):
    def forward(self, q, k, v):
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        if self.training:
            x = F.dropout(x, 0.1)
        return x
""",
)
