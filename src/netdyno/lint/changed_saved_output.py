"""The output of an activation is changed in place while its backward still needs it.

Looks for:  `y = relu(x)` (or sigmoid, tanh, exp, softmax, sqrt) and then `y += ...` or `y.add_(...)` in the forward
            of an `nn.Module`.
Wrong:      `out = F.relu(self.a(x)); out += x`: backward raises, since ReLU keeps its output.
Right:      `out = out + x`
Not this:   a layer between the two; an activation that keeps its input (GELU, SiLU); a method under `no_grad`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, Splice, method, replaced

KEEPS = {"relu", "sigmoid", "tanh", "exp", "softmax", "sqrt", "log_softmax"}
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
IN_PLACE = {"add_", "sub_", "mul_", "div_", "clamp_", "clamp_min_"}


@lint(
    fix="write `y = y + x` instead of changing `y` in place",
    layer="optimisation",
    stage="structure",
    ledger=("C-110",),
    confidence=0.95,
    watched=("modified-in-place",),
)
def changed_saved_output(source: Python) -> Iterator[Hit]:
    for statement in (*source.of(ast.AugAssign), *source.of(ast.Expr)):
        name = _changed(statement)
        scope = source.function(statement)
        if name is None or not source.in_module(statement) or _without_gradients(scope):
            continue
        made = _just_made(source, statement, name)
        op = source.op(made) if made is not None else ""
        if op in KEEPS and getattr(scope, "name", "") not in {"__init__", "reset_parameters"}:
            yield Hit(
                statement,
                f"`{name}` is what the {op} keeps for its backward, and it is changed in place",
                edits=_edits(statement),
            )


def _changed(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.AugAssign) and type(statement.op) in SIGNS and isinstance(statement.target, ast.Name):
        return statement.target.id
    owner, name = method(statement)
    return owner if name in IN_PLACE and owner.isidentifier() else None


def _just_made(source: Python, statement: ast.stmt, name: str) -> ast.Call | None:
    """The call that gave the name its value, nothing else having happened to it in between."""
    block = source.block(statement)
    for each in reversed(block[: block.index(statement)]):
        stored = any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(each)
        )
        if stored:
            whole = isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name
            return each.value if whole and isinstance(each.value, ast.Call) else None  # type: ignore[attr-defined]
    return None


def _without_gradients(scope: ast.AST) -> bool:
    decorators = [ast.unparse(each) for each in getattr(scope, "decorator_list", [])]
    return any("no_grad" in each or "inference_mode" in each for each in decorators)


def _edits(statement: ast.stmt) -> tuple[Splice, ...]:
    if not isinstance(statement, ast.AugAssign):
        return ()
    # Only the part up to the value is written anew: `y += x` becomes `y = y + x`.
    simple = isinstance(statement.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
    name, sign = ast.unparse(statement.target), SIGNS[type(statement.op)]
    return (replaced(statement, f"{name} = {name} {sign} {ast.unparse(statement.value)}"),) if simple else ()  # type: ignore[arg-type]


BAD = (
    """\
import torch.nn.functional as F
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        out = F.relu(self.a(x))
        out += x
        return out
""",
    """\
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.Sigmoid()
    def forward(self, x):
        gate = self.act(x)
        gate.mul_(2)
        return gate
""",
)
GOOD = (
    """\
import torch.nn.functional as F
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        out = F.relu(self.a(x))
        out = self.b(out)
        out += x
        return F.relu(out)
""",
    """\
import torch.nn.functional as F
from torch import nn
class Block(nn.Module):
    def forward(self, x):
        out = F.gelu(self.a(x))
        out += x
        count = 0
        count += 1
        return out
""",
)
