"""A distillation loss at a temperature is not scaled back.

Looks for:  `kl_div` whose two arguments are both divided by the same temperature, in a function that multiplies nothing
            by its square.
Wrong:      `F.kl_div(log_softmax(s / T, 1), softmax(t / T, 1))`: its gradients are smaller by the square of the temperature.
Right:      `... * T * T`, or `* T**2`
Not this:   a function that multiplies by the temperature anywhere, by itself or by a power; a temperature of one.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, constant

SOFTMAXES = {"softmax", "log_softmax"}


@lint(
    fix="multiply the loss by the square of the temperature",
    layer="optimisation",
    stage="loss",
    ledger=("C-113",),
    confidence=REMARK,  # a weight tuned with it can take its place
)
def distillation_without_temperature(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        if source.op(call) != "kl_div":
            continue
        first, second = argument(call, "input", 0), argument(call, "target", 1)
        heat = _heat(source, first)
        if heat and heat == _heat(source, second) and not _scaled(source, heat):
            yield Hit(call, f"the loss is taken at temperature `{heat}` and never multiplied by its square")


def _heat(source: Python, node: ast.expr | None) -> str:
    behind = source.origin(node) if node is not None else None
    if not isinstance(behind, ast.Call) or source.op(behind) not in SOFTMAXES:
        return ""
    inner = argument(behind, "input", 0)
    if not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Div) or constant(inner.right) == 1:
        return ""
    return ast.unparse(inner.right)


def _scaled(source: Python, heat: str) -> bool:
    """Whether anything of the file outside of the two softmaxes multiplies by the temperature."""
    products: list[ast.AST] = [each for each in source.of(ast.BinOp) if isinstance(each.op, ast.Mult | ast.Pow)]
    products += [each for each in source.of(ast.AugAssign) if isinstance(each.op, ast.Mult)]
    number = constant(ast.parse(heat, mode="eval").body)
    wanted = {heat, str(number * number)} if isinstance(number, int | float) else {heat}
    softmaxes = {part for each in source.of(ast.Call) if source.op(each) in SOFTMAXES for part in ast.walk(each)}
    parts = [part for each in products for part in ast.walk(each) if part not in softmaxes]
    return any(ast.unparse(part) in wanted for part in parts if isinstance(part, ast.expr))


BAD = (
    """\
import torch.nn.functional as F
def distil(s, t, T):
    return F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean")
""",
)
GOOD = (
    """\
import torch.nn.functional as F
def distil(s, t, T):
    return F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean") * T * T
""",
    """\
import torch.nn.functional as F
def distil(s, t, T, weight):
    kd = F.kl_div(F.log_softmax(s / T, dim=1), F.softmax(t / T, dim=1), reduction="batchmean")
    return weight * T**2 * kd
""",
    """\
import torch.nn.functional as F
def distil(s, t):
    return F.kl_div(F.log_softmax(s, dim=1), F.softmax(t, dim=1), reduction="batchmean")
""",
)
