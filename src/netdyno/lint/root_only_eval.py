"""Only the outermost module is set to evaluation, its layers are not.

Looks for:  `model.training = False` (or True) on a name, outside of a loop over modules.
Wrong:      `model.training = False`: dropout and BatchNorm inside keep their mode.
Right:      `model.eval()`
Not this:   a loop over `modules()`; a class that sets its own `self.training`; something that is no module.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, constant, replaced


@lint(
    fix="call `model.eval()` (or `model.train()`), which reaches every layer",
    layer="inference",
    stage="use",
    ledger=("C-063",),
    confidence=0.85,
)
def root_only_eval(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Assign):
        target = each.targets[0]
        if not isinstance(target, ast.Attribute) or target.attr != "training":
            continue
        value = constant(each.value)
        owner = target.value
        if not isinstance(value, bool) or not isinstance(owner, ast.Name) or owner.id in {"self", "cls"}:
            continue
        calls = any(ast.unparse(call.func) == f"{owner.id}.parameters" for call in source.of(ast.Call))
        made = source.made(owner)
        if _over_modules(source, each, owner.id) or not (calls or (made is not None and source.makes_module(made))):
            continue
        call = f"{owner.id}.{'train' if value else 'eval'}()"
        yield Hit(
            each,
            f"`{ast.unparse(each)}` does not reach the layers inside",
            f"call `{call}`",
            edits=(replaced(each, call),),
        )  # type: ignore[arg-type]


def _over_modules(source: Python, each: ast.stmt, name: str) -> bool:
    return any(
        isinstance(parent, ast.For) and name in {ast.unparse(node) for node in ast.walk(parent.target)}
        for parent in source.above(each)
    )


BAD = ("import torch\nopt = torch.optim.SGD(model.parameters(), 1)\nmodel.training = False\ny = model(x)\n",)
GOOD = (
    "import torch\nopt = torch.optim.SGD(model.parameters(), 1)\nmodel.eval()\n",
    "for m in model.modules():\n    m.training = False\n",
    "class A:\n    def freeze(self):\n        self.training = False\n",
)
