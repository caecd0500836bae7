"""A layer augments with one coin for the whole batch, in evaluation too.

Looks for:  the forward of an `nn.Module` that another module of the file holds, with `if torch.rand(1) < p` (or
            `random.random()`) around a flip, and no look at `self.training`.
Wrong:      `if torch.rand(1) < 0.5: x = x.flip(-1)`
Right:      `if self.training:` and a mask for each sample, `torch.where(mask, x.flip(-1), x)`
Not this:   transforms of single samples in a data set; stochastic depth that asks for `self.training`.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

COINS = ("torch.rand", "random.random", "numpy.random.rand", "numpy.random.random", "torch.randint")


@lint(
    fix="ask `if self.training`, and draw one coin for each sample",
    layer="inference",
    stage="use",
    ledger=("C-010",),
    confidence=0.75,
)
def coin_for_the_batch(source: Python) -> Iterator[Hit]:
    for owner in source.modules.values():
        forward = next(
            (each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None
        )
        if forward is None or "training" in ast.unparse(owner) or not _is_held(source, owner):
            continue
        for each in source.under(forward, ast.If):
            tossed = any(source.name(call.func) in COINS for call in source.under(each.test, ast.Call))
            flips = any(source.op(call) == "flip" for part in each.body for call in source.under(part, ast.Call))
            if tossed and flips:
                yield Hit(each, f"`{owner.name}` flips whole batches at random, also when the model is evaluated")


def _is_held(source: Python, owner: ast.ClassDef) -> bool:
    """Whether a module of the file makes it a part of itself."""
    return any(
        isinstance(each.value, ast.Call)
        and isinstance(each.value.func, ast.Name)
        and each.value.func.id == owner.name
        and ast.unparse(each.targets[0]).startswith("self.")
        and source.in_module(each)
        for each in source.of(ast.Assign)
    )


BAD = (
    """\
import torch
from torch import nn
class Flip(nn.Module):
    def forward(self, x):
        if torch.rand(1) < 0.5:
            x = torch.flip(x, [-1])
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.flip = Flip()
""",
)
GOOD = (
    """\
import torch
from torch import nn
class Flip(nn.Module):
    def forward(self, x):
        if self.training and torch.rand(1) < 0.5:
            x = torch.flip(x, [-1])
        return x
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.flip = Flip()
""",
    """\
import torch
from torch import nn
class RandomFlip(nn.Module):
    def forward(self, x):
        if torch.rand(1) < 0.5:
            x = torch.flip(x, [-1])
        return x
transform = RandomFlip()
""",
)
