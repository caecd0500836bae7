"""Which lines of a faulty program are right to point at besides the changed ones: one step along names and calls, by ast."""

import ast
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.For, ast.While, ast.With, ast.If, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.While)
# Methods that somebody else calls: the line of the user's that sets them to work is the one that makes the object.
MADE = ("__init__", "__post_init__", "__getitem__", "__getitems__", "__len__", "__iter__", "__next__")
CALLED = ("forward", "__call__")


def lines_used(before: str, after: str, changed: Iterable[int]) -> tuple[int, ...]:
    """The lines of `after` that are one step from a change: they use what a changed line assigns, call or make what it
    lies in, or stand in the loop that a statement was taken out of.

    >>> lines_used("LR = 1\\nx = 2\\nuse(LR)\\n", "LR = 3\\nx = 2\\nuse(LR)\\n", (1,))
    (3,)
    """
    tree = ast.parse(after)
    lines = set(changed) - set(_beside_deletions(before, after))
    found: set[int] = set()
    for scope in _scopes(tree):
        found |= _readers(scope, tree, lines)
    for owner, function in _functions(tree):
        if any(line in lines for node in function.body for line in _span(node)):
            found |= _callers(tree, owner, function)
    found |= _left_behind(before, tree, after)
    return tuple(sorted(found - set(changed)))


def _readers(scope: ast.AST, tree: ast.Module, lines: set[int]) -> set[int]:
    """Lines that read a name of this scope, or an attribute of self, while it has the value that a changed line gave it."""
    found: set[int] = set()
    stores = [(name, node) for node in _own(scope) for name in _stored(node)]
    if isinstance(scope, Function) and scope.lineno in lines:  # an argument, or its default
        names = {each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg)}
        found |= {node.lineno for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id in names}
    for name, node in stores:
        if node.lineno not in lines and not lines & set(_head(node)):
            continue
        # Until another statement gives it another value; one that changes it in place, or in a branch, does not.
        later = [
            other.lineno for known, other in stores if known == name and other.lineno > node.lineno
            and isinstance(other, ast.Assign) and not lines & set(_head(other)) and not _conditional(scope, other)
        ]  # fmt: skip
        last = min(later, default=1 << 30)
        reach = _reach(scope, tree, name)
        for reader in reach:
            here = reader.lineno
            inside = reader in set(_own(scope))
            if not inside or node.lineno < here <= last:
                found.add(here)
    return found


def _reach(scope: ast.AST, tree: ast.Module, name: str) -> list[ast.expr]:
    """What reads a name: in its own scope, for names of the module and attributes of self also elsewhere."""
    if name.startswith("self."):
        owner = next((each for each in ast.walk(tree) if isinstance(each, ast.ClassDef) and scope in each.body), scope)
        attribute = name.removeprefix("self.")
        return [
            node for node in ast.walk(owner)
            if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load)
            and isinstance(node.value, ast.Name) and node.value.id == "self"
        ]  # fmt: skip
    return [
        node for node in ast.walk(scope)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        and not _shadowed(scope, node, name)
    ]  # fmt: skip


def _shadowed(scope: ast.AST, reader: ast.Name, name: str) -> bool:
    """Whether a function between the scope and the reader has a name of its own like that."""
    for _, function in _functions(scope):
        if function is scope or reader not in set(ast.walk(function)):
            continue
        arguments = function.args
        own = [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        if name in own or any(name in _stored(node) for node in _own(function)):
            return True
    return False


def _callers(tree: ast.Module, owner: ast.ClassDef | None, function: Function) -> set[int]:
    """Lines that call a function; for a method that others call, those that make its object."""
    if owner is None:
        return {node.lineno for node in _calls(tree) if _name(node.func) == function.name}
    if function.name in MADE:
        return _makers(tree, owner)
    if function.name in CALLED:
        objects = {
            name for node in ast.walk(tree) if isinstance(node, ast.Assign) and _makes(node.value, owner)
            for name in _stored(node)
        }  # fmt: skip
        return {node.lineno for node in _calls(tree) if _dotted(node.func) in objects}
    return {
        node.lineno for node in _calls(tree)
        if isinstance(node.func, ast.Attribute) and node.func.attr == function.name
    }  # fmt: skip


def _makers(tree: ast.Module, owner: ast.ClassDef) -> set[int]:
    return {node.lineno for node in _calls(tree) if _name(node.func) == owner.name}


def _makes(value: ast.expr, owner: ast.ClassDef) -> bool:
    """Whether an expression makes an object of a class, perhaps wrapped: `compile(Net())`, `Net().to(device)`."""
    return any(_name(node.func) == owner.name for node in _calls(value))


def _left_behind(before: str, tree: ast.Module, after: str) -> set[int]:
    """For statements taken out: the simple statements of the loop that they stood in; outside of loops, those of the same
    function that speak of the same names."""
    found: set[int] = set()
    gone = _deleted(before, after)
    old = ast.parse(before)
    for node in ast.walk(old):
        if not isinstance(node, ast.stmt) or isinstance(node, BLOCKS) or node.lineno not in gone:
            continue
        block = _innermost(tree, gone[node.lineno])
        if isinstance(block, LOOPS):
            found |= {each.lineno for each in block.body if not isinstance(each, BLOCKS)}
        elif block is not None:
            names = {_dotted(each) for each in ast.walk(node)} - {"", "self"}
            found |= {each.lineno for each in ast.walk(block) if _dotted(each) in names}  # type: ignore[attr-defined]
    return found


def _deleted(before: str, after: str) -> dict[int, int]:
    """Lines of `before` that nothing took the place of, and the line of `after` that follows them."""
    told: dict[int, int] = {}
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for tag, begin, end, start, _ in matcher.get_opcodes():
        if tag == "delete":
            told.update(dict.fromkeys(range(begin + 1, end + 1), start + 1))
    return told


def _beside_deletions(before: str, after: str) -> Iterator[int]:
    """Lines that count as changed only because one beside them is gone."""
    replaced: set[int] = set()
    matcher = SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for tag, _, _, start, stop in matcher.get_opcodes():
        if tag in ("replace", "insert"):
            replaced.update(range(start + 1, stop + 1))
    for following in _deleted(before, after).values():
        yield from {following - 1, following} - replaced


def _innermost(tree: ast.Module, line: int) -> ast.AST | None:
    """The smallest loop or function around a gap before a line."""
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, (*LOOPS, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno < line and line <= (node.end_lineno or 0) + 1
    ]  # fmt: skip
    return max(around, key=lambda node: node.lineno, default=None)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (function for _, function in _functions(tree))


def _functions(tree: ast.AST) -> Iterator[tuple[ast.ClassDef | None, Function]]:
    owners = {id(child): node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield owners.get(id(node)), node


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope, those of the functions in it left out."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*Function.__args__, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _stored(node: ast.AST) -> list[str]:
    """The names that a statement gives a value, `self.x` among them; what is changed through an index counts as well."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        targets = [node.target]
    elif isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    names: list[str] = []
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Tuple | ast.List):
            targets.extend(target.elts)
        elif isinstance(target, ast.Starred | ast.Subscript):
            targets.append(target.value)
        elif isinstance(target, ast.Name) or _dotted(target).count(".") == 1:
            names.append(_dotted(target))
    return names


def _conditional(scope: ast.AST, statement: ast.AST) -> bool:
    """Whether a statement of a scope lies in a branch or loop of it."""
    return statement not in getattr(scope, "body", ())


def _head(node: ast.AST) -> range:
    """The lines of a statement, without the body of a block."""
    last = node.end_lineno if isinstance(node, ast.stmt) and not isinstance(node, BLOCKS) else None
    return range(node.lineno, (last or node.lineno) + 1) if isinstance(node, ast.stmt) else range(0)


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(function: ast.expr) -> str:
    """The last name of what is called."""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _dotted(node: ast.AST) -> str:
    """`a.b` as text, or nothing for what is not just names."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""
