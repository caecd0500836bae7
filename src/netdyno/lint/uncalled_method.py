"""A method is named and not called.

Looks for:  a line that is only `loss.backward`, `optimizer.step`, `optimizer.zero_grad`, `model.eval` or `model.train`;
            `model.state_dict` or `model.parameters` handed over without its brackets.
Wrong:      `optimizer.step`
Right:      `optimizer.step()`
Not this:   a method that is kept under a name or passed as a callback.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, replaced

METHODS = {"backward", "step", "zero_grad", "eval", "train", "cuda", "detach_", "update"}
SAVES = ("torch.save", "torch.optim.*")


@lint(
    fix="add the brackets",
    layer="optimisation",
    stage="order",
    confidence=0.95,
)
def uncalled_method(source: Python) -> Iterator[Hit]:
    for statement in source.of(ast.Expr):
        value = statement.value
        if isinstance(value, ast.Attribute) and value.attr in METHODS and not source.name(value):
            text = ast.unparse(value)
            yield Hit(value, f"`{text}` is named and not called", edits=(replaced(value, f"{text}()"),))
    for call in (*source.calls(*SAVES), *source.methods("load_state_dict")):
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Attribute) and given.attr in {"state_dict", "parameters"}:
            text = ast.unparse(given)
            yield Hit(given, f"`{text}` is handed over and not called", edits=(replaced(given, f"{text}()"),))


BAD = (
    "for x, y in loader:\n    loss.backward()\n    optimizer.step\n",
    "model.eval\nprint(model(x))\n",
    "import torch\ntorch.save(model.state_dict, 'last.pt')\n",
    "import torch\nopt = torch.optim.Adam(model.parameters, lr=1e-3)\n",
)
GOOD = (
    "loss.backward()\noptimizer.step()\nmodel.eval()\n",
    "step = optimizer.step\nhook(optimizer.step)\n",
    "import torch\ntorch.save(model.state_dict(), 'last.pt')\n",
)
