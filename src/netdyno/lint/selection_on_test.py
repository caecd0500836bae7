"""The checkpoint is chosen by its score on the test data, which is then no test any more.

Looks for:  `if test_acc > best:` in a training loop, where `test_acc` comes of a call with what is named test data, and the block
            keeps the weights.
Wrong:      `acc = evaluate(model, test_loader)`, `if acc > best: best = acc; torch.save(model.state_dict(), ...)`
Right:      choose by validation data, and evaluate the chosen weights on test data once.
Not this:   a test score that is only printed or kept; a choice by validation or training data.
"""

import ast
import re
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, method

TEST = re.compile(r"(^|[_.])test([_.]|$)|^(test|te)_?(dl|ds|set|data|loader|dataloader)$|_te$", re.IGNORECASE)
VALIDATION = re.compile(
    r"(^|[_.])(val|valid|validation|dev)([_.]|$)|^val(id)?_?(dl|ds|set|data|loader)$", re.IGNORECASE
)
KEEPS = ("torch.save", "copy.deepcopy")


@lint(
    fix="choose the weights by validation data, and score them on the test data once",
    layer="generalisation",
    stage="data",
    confidence=0.8,
)
def selection_on_test(source: Python) -> Iterator[Hit]:
    if not source.trains:
        return
    scores = dict(_scores(source))
    named = {each.id for each in source.of(ast.Name)}
    spare = any(VALIDATION.search(name) for name in named) and any("loader" in name or "dl" in name for name in named)
    for each in source.of(ast.If):
        if source.loop(each) is None or not isinstance(each.test, ast.Compare) or not _keeps(source, each):
            continue
        sides = [ast.unparse(side) for side in (each.test.left, *each.test.comparators)]
        tested = next((side for side in sides if side in scores), None)
        if tested is None or not any("best" in side.lower() for side in sides):
            continue
        data = scores[tested]
        # Where there is no other data to choose by, "test" may be somebody's word for validation.
        yield Hit(
            each.test,
            f"`{tested}`, a score on `{data}`, decides which weights are kept",
            confidence=None if spare else 0.5,
        )


def _scores(source: Python) -> Iterator[tuple[str, str]]:
    """Names that hold what a call made of test data, and the data's name; names that ever hold something else are left out."""
    held: dict[str, set[str]] = {}
    for each in source.of(ast.Assign):
        data = _data(each.value)
        for target in each.targets:
            for one in target.elts if isinstance(target, ast.Tuple | ast.List) else (target,):
                if isinstance(one, ast.Name | ast.Attribute):
                    held.setdefault(ast.unparse(one), set()).add(data)
    for name, found in held.items():
        if len(found) == 1 and "" not in found:
            yield name, next(iter(found))


def _data(value: ast.expr) -> str:
    if isinstance(value, ast.Call):
        for given in (*value.args, *(word.value for word in value.keywords)):
            if isinstance(given, ast.Name | ast.Attribute) and TEST.search(ast.unparse(given)):
                return ast.unparse(given)
    return ""


def _keeps(source: Python, each: ast.If) -> bool:
    for call in (found for part in each.body for found in source.under(part, ast.Call)):
        if source.name(call.func) in KEEPS or method(call)[1] in ("state_dict", "save_pretrained", "save_checkpoint"):
            return True
    return False


_LOOP = """\
import copy
import torch
best = 0.0
for epoch in range(10):
    for x, y in train_loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    val_acc = evaluate(model, val_loader)
    {name} = evaluate(model, {data})
    if {name} > best:
        best = {name}
        {then}
"""
BAD = (
    _LOOP.format(name="acc", data="test_loader", then="torch.save(model.state_dict(), 'best.pt')"),
    _LOOP.format(name="test_acc", data="test_dl", then="state = copy.deepcopy(model.state_dict())"),
)
GOOD = (
    _LOOP.format(name="acc", data="val_loader", then="torch.save(model.state_dict(), 'best.pt')"),
    _LOOP.format(name="test_acc", data="test_loader", then="print(best)"),
)
