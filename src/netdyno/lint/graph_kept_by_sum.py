"""A running total of losses keeps the graph of every batch.

Looks for:  `total += loss` in the loop in which `loss.backward()` is called, where `loss` is a tensor with its graph and
            the total is never differentiated itself.
Wrong:      `total += loss`: memory grows with every batch.
Right:      `total += loss.item()`, or `loss.detach()`
Not this:   a total that is differentiated later; a value taken with `item()`, `float()` or `detach()`; an evaluation
            under `no_grad`; a name that held a number by then.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, Splice, method, replaced


@lint(
    fix="add `loss.detach()` (or `loss.item()`) to the total",
    layer="memory",
    stage="speed",
    ledger=("C-094",),
    confidence=0.9,
    watched=("growing-graph",),
)
def graph_kept_by_sum(source: Python) -> Iterator[Hit]:
    for backward in source.methods("backward"):
        loop = source.loop(backward)
        if loop is None or source.inside(backward, ast.With) in _no_grads(source):
            continue
        for loss in _losses(backward):
            for node, total, added in _sums(source, loop):
                if source.loop(node) is loop and _is(added, loss) and _kept(source, node, total, backward, loss):
                    says = f"`{total}` keeps the graph of every `{loss}` that is added to it"
                    yield Hit(node, says, edits=_edits(added, loss))


def _losses(backward: ast.Call) -> list[str]:
    """The names that go backward: alone, or in a sum of terms where they are surely tensors of this batch."""
    assert isinstance(backward.func, ast.Attribute)
    what = backward.func.value
    if isinstance(what, ast.Name):
        return [what.id]
    names = {node.id for node in ast.walk(what) if isinstance(node, ast.Name)} if isinstance(what, ast.BinOp) else set()
    return sorted(name for name in names if "loss" in name)


def _kept(source: Python, node: ast.stmt, total: str, backward: ast.Call, loss: str) -> bool:
    return (
        source.function(node) is source.function(backward)
        and not _differentiated(source, total, backward)
        and not _is_number(source, node, backward, loss)
        and not _cleared(source, node, total)
    )


def _sums(source: Python, loop: ast.AST) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    for each in source.under(loop, ast.AugAssign):
        if isinstance(each.op, ast.Add):
            yield each, ast.unparse(each.target), each.value
    for assign in source.under(loop, ast.Assign):
        value = assign.value
        target = ast.unparse(assign.targets[0])
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and ast.unparse(value.left) == target:
            yield assign, target, value.right
    for call in source.under(loop, ast.Call):
        owner, name = method(call)
        if name == "append" and len(call.args) == 1:
            yield source.statement(call), owner, call.args[0]


def _is(added: ast.expr, loss: str) -> bool:
    """`loss` itself, or a multiple of it by a number: never what was taken out of its graph."""
    while isinstance(added, ast.BinOp) and isinstance(added.op, ast.Mult | ast.Div):
        added = added.left if not isinstance(added.left, ast.Constant) else added.right
    return isinstance(added, ast.Name) and added.id == loss


def _differentiated(source: Python, total: str, backward: ast.Call) -> bool:
    """Whether the total is used for learning: it goes backward, or into another expression before the loop ends."""
    if any(total in ast.unparse(call) for call in source.methods("backward")):
        return True
    return any(
        total in {ast.unparse(part) for part in ast.walk(call)}
        and ast.unparse(call.func) in {"sum", "torch.stack", "torch.cat"}
        and not _plain_sum(source, call)
        for call in source.of(ast.Call)
        if source.function(call) is source.function(backward)
    )


def _plain_sum(source: Python, call: ast.Call) -> bool:
    """Whether a sum of the list is only printed or read: then it was no reason to keep the graphs."""
    for parent in source.above(call):
        if isinstance(parent, ast.Call) and (
            ast.unparse(parent.func) in {"print", "float"} or method(parent)[1] == "item"
        ):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in {"item", "detach"}:
            return True
        if isinstance(parent, ast.stmt):
            return isinstance(parent, ast.Return)
    return False


def _is_number(source: Python, node: ast.stmt, backward: ast.Call, loss: str) -> bool:
    """Whether the name was given a plain value between `backward()` and the sum."""
    for each in source.assignments(source.function(node), loss):
        if backward.lineno < each.lineno <= node.lineno or (each.lineno < node.lineno and _plain(each)):
            return True
    return False


def _plain(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    return value is not None and method(value)[1] in {"item", "detach"}


def _cleared(source: Python, node: ast.stmt, total: str) -> bool:
    """Whether the total begins anew in the same loop: then it keeps one round's graph only."""
    loop = source.loop(node)
    return any(
        source.loop(each) is loop and each is not node and not isinstance(each, ast.AugAssign)
        for each in source.assignments(source.function(node), total)
    )


def _no_grads(source: Python) -> set[ast.With]:
    return {each for each in source.of(ast.With) if "no_grad" in ast.unparse(each.items[0])}


def _edits(added: ast.expr, loss: str) -> tuple[Splice, ...]:
    name = next(node for node in ast.walk(added) if isinstance(node, ast.Name) and node.id == loss)
    return (replaced(name, f"{loss}.detach()"),)


BAD = (
    """\
total = 0
for x, y in loader:
    loss = f(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    total += loss
print(total / len(loader))
""",
    """\
losses = []
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    losses.append(loss)
""",
    """\
for epoch in range(3):
    running = 0.0
    for x, y in loader:
        loss = f(model(x), y)
        running = running + loss * len(x)
        loss.backward()
""",
    """\
for x, y in loader:
    loss = f(model(x), y)
    (loss + 0.1 * weight).backward()
    total += loss
    weights += weight
""",
)
GOOD = (
    """\
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    total += loss.item()
    losses.append(loss.detach())
    seen.append(float(loss))
""",
    """\
for x, y in loader:
    loss = f(model(x), y)
    total += loss
total.backward()
""",
    """\
for x, y in loader:
    loss = f(model(x), y)
    loss.backward()
    loss = loss.item()
    total += loss
""",
)
