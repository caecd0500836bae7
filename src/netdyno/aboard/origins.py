"""Which statement of the user's prepared the numbers that a line gives to a model: names followed back through the source."""

import ast
import builtins
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .frames import Line

# A longer file takes more than some hundredths of a second to parse, and a longer way back is none that a reader would go.
LONGEST, DEEPEST = 120_000, 40
# What hands on what it was given, element by element.
HANDS_ON = {"enumerate", "iter", "next", "tqdm", "trange", "list", "cycle", "islice", "prefetch"}
# What changes the kind of a number and not its value.
CONVERTS = {
    "from_numpy", "tensor", "as_tensor", "asarray", "array", "Tensor", "FloatTensor", "LongTensor", "float", "long", "double", "half",
    "to", "cuda", "cpu", "numpy", "contiguous", "astype", "clone", "copy", "detach", "pin_memory", "requires_grad_", "type",
}  # fmt: skip
SPLITS = ("split", "Split")
LIBRARIES = ("torch", "np", "numpy", "F", "nn", "math", "jnp", "pd")

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Binding = tuple[ast.stmt, ast.expr | None, tuple[int, ...]]  # a statement, what it takes the value from, which element


class Origins(NamedTuple):
    """Lines that made the inputs and the targets, that split, and that made what was split; None where nobody can tell."""

    inputs: int | None = None
    targets: int | None = None
    split: int | None = None
    whole: int | None = None


NOTHING = Origins()
_known: dict[tuple[str, int], Origins] = {}
_answers: dict[tuple[str, int, str], int | None] = {}
_sources: dict[str, "Source | None"] = {}


def origins(line: Line) -> Origins:
    """Where what a line gives to its model was made, as its file tells."""
    key = (line.file, line.line)
    if key not in _known:
        try:
            source = _source(line.file)
            _known[key] = NOTHING if source is None else source.origins(line.line)
        except (OSError, SyntaxError, ValueError, RecursionError):
            _known[key] = NOTHING
    return _known[key]


def loop(line: Line) -> int | None:
    """The outermost loop that a line runs in, through the functions that hold it; as of epochs around a training step."""
    return _asked(line, Source.loop)


def caller(line: Line) -> int | None:
    """The line within a loop that calls the function which holds a line; as of an evaluation after each epoch."""
    return _asked(line, Source.caller)


def _asked(line: Line, what: Callable[["Source", int], int | None]) -> int | None:
    key = (line.file, line.line, what.__name__)
    if key not in _answers:
        _answers[key] = None
        with contextlib.suppress(OSError, SyntaxError, ValueError, RecursionError):
            source = _source(line.file)
            _answers[key] = what(source, line.line) if source is not None else None
    return _answers[key]


def _source(file: str) -> "Source | None":
    if file not in _sources:
        _sources[file] = None
        if file.endswith(".py") and os.path.getsize(file) <= LONGEST:
            with open(file, encoding="utf-8") as opened:
                _sources[file] = Source(opened.read())
    return _sources[file]


class Step(NamedTuple):
    """A statement on the way back. `made`: it computed something, rather than to hand on; `split`: it took apart."""

    line: int
    made: bool
    split: bool


class Source:
    """A file, and the way that values take through its names."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.outer: dict[str, int | None] = {}  # by function: the outermost loop around its calls
        self.above: dict[ast.AST, ast.AST] = {
            child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)
        }

    def origins(self, line: int) -> Origins:
        """What is known of the line that calls a model."""
        given = self._given(line)
        if given is None:
            return NOTHING
        inputs = self._way(given, ())
        beside = self._beside(given)
        targets = self._way(*beside) if beside is not None else []
        cut = next((at for at, step in enumerate(inputs) if step.split), None)
        if cut is None:
            return Origins(_first(inputs), _first(targets))
        whole = next((step.line for step in inputs[cut + 1 :] if step.made), inputs[cut].line)
        return Origins(_first(inputs), _first(targets), inputs[cut].line, whole)

    def loop(self, line: int) -> int | None:
        """The line of the outermost loop around a line, those around calls of its function included."""
        inside = self._around(line)
        function = next((node for node in inside if isinstance(node, Function)), None)
        outer = self._loop_of_calls(function) if function is not None else None
        own = [node.lineno for node in inside if isinstance(node, ast.For | ast.While)]
        return outer if outer is not None else own[-1] if own else None

    def _loop_of_calls(self, function: Any) -> int | None:
        """The same for the calls of a function. Asked once for each name: functions that call each other in many places have
        more ways through them than anybody can walk."""
        if function.name not in self.outer:
            self.outer[function.name] = None  # the answer to whoever comes back here on the way
            found = (self.loop(call.lineno) for call in self._calls(function))
            self.outer[function.name] = next((line for line in found if line is not None), None)
        return self.outer[function.name]

    def caller(self, line: int) -> int | None:
        """The call of a line's function that lies in the innermost loop; the last one where none does."""
        function = next((node for node in self._around(line) if isinstance(node, Function)), None)
        calls = self._calls(function) if function is not None else []
        return max(calls, key=self._loops).lineno if calls else None

    def _loops(self, node: ast.AST) -> int:
        return sum(isinstance(each, ast.For | ast.While) for each in self._around(node.lineno))  # type: ignore[attr-defined]

    def _around(self, line: int) -> list[Any]:
        """Loops, up to the function that holds a line, and that function; innermost first."""
        kinds = (ast.For, ast.While, *Function)
        nodes = [n for n in ast.walk(self.tree) if isinstance(n, kinds) and n.lineno <= line <= (n.end_lineno or 0)]
        nodes.sort(key=lambda node: -node.lineno)
        at = next((number for number, node in enumerate(nodes) if isinstance(node, Function)), len(nodes))
        return nodes[: at + 1]

    def _calls(self, function: Any) -> list[ast.Call]:
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.Call) and _name(n.func) == function.name]

    def _given(self, line: int) -> ast.expr | None:
        """The first argument of the call on a line that looks most like that of a model: the innermost that is given a name."""
        best: ast.expr | None = None
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or line) and node.args:
                name = _name(node.func)
                if (
                    name in CONVERTS
                    or _root(node.func) in LIBRARIES
                    or (_dotted(node.func) and hasattr(builtins, name))
                ):
                    continue
                if _core(node.args[0]) is not None and _spans_less(node, best, self.above):
                    best = node.args[0]
        return _core(best) if best is not None else None

    def _beside(self, given: ast.expr) -> tuple[ast.expr, tuple[int, ...]] | None:
        """The name that was bound together with the inputs: `for inputs, targets in loader`."""
        for _, value, which in self._bindings(given):
            if value is None or not which:
                continue
            other = (*which[:-1], which[-1] + 1)
            return value, other
        return None

    def _way(self, start: ast.expr, which: tuple[int, ...]) -> list[Step]:
        """The statements through which a value came, the last one first."""
        steps: list[Step] = []
        value: ast.expr | None = start
        seen: set[int] = set()
        while value is not None and len(steps) < DEEPEST:
            value, which = _inside(value, which)
            following = self._returned(value, which)
            if following is not None:
                value, which = following
                continue
            found = self._bindings(value)
            if not found or id(found[0][0]) in seen:
                break
            statement, value, further = found[0]
            seen.add(id(statement))
            which = (*further, *which)
            steps.append(Step(statement.lineno, self._makes(statement, which), _splits(statement)))
            if steps[-1].split:
                value, which = _whole_of(statement, value, which)
        return steps

    def _returned(self, value: ast.expr, which: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]] | None:
        """What a function of this file returned, where the value is a call of one."""
        function = self._function(value)
        if function is None:
            return None
        for node in _own(function):
            if isinstance(node, ast.Return) and node.value is not None:
                return node.value, which
        return None

    def _function(self, value: ast.expr | None) -> ast.AST | None:
        if not isinstance(value, ast.Call):
            return None
        name = _name(value.func)
        for node in ast.walk(self.tree):
            if (
                isinstance(node, Function)
                and node.name == name
                and not any(isinstance(n, ast.Yield) for n in _own(node))
            ):
                return node
        return None

    def _makes(self, statement: ast.stmt, which: tuple[int, ...]) -> bool:
        if isinstance(statement, ast.AugAssign) or _is_store_into(statement):
            return True
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        if value is None:
            return False
        inner, _ = _inside(value, which)
        if isinstance(inner, ast.Name | ast.Attribute) or self._function(inner) is not None:
            # Handed on; a part of it that is taken outside of a loop is what somebody chose.
            return _takes_part(value) and not self._in_loop(statement)
        return True

    def _in_loop(self, node: ast.AST) -> bool:
        while node in self.above and not isinstance(node, Function):
            node = self.above[node]
            if isinstance(node, ast.For | ast.While):
                return True
        return False

    def _scope(self, node: ast.AST) -> ast.AST:
        while node in self.above:
            node = self.above[node]
            if isinstance(node, (*Function, ast.Module)):
                return node
        return self.tree

    def _bindings(self, value: ast.expr) -> list[Binding]:
        """The statements that gave a name or an attribute of self its value, the one that counts first."""
        name = _dotted(value)
        if not name:
            return []
        scope = self._scope(value)
        if name.startswith("self."):
            return self._attribute(name, value)
        if isinstance(scope, Function):
            found = _stores(scope, name, before=value.lineno)
            return found or self._argument(scope, name) or _stores(self.tree, name)
        return _stores(self.tree, name, before=value.lineno)

    def _attribute(self, name: str, value: ast.expr) -> list[Binding]:
        owner: ast.AST = value
        while owner in self.above and not isinstance(owner, ast.ClassDef):
            owner = self.above[owner]
        found = [each for node in ast.walk(owner) if isinstance(node, Function) for each in _stores(node, name)]
        return found[::-1]

    def _argument(self, function: Any, name: str) -> list[Binding]:
        """What a function was given as this argument, where it was called last."""
        parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        if name not in parameters:
            return []
        owner = self.above.get(function)
        method = isinstance(owner, ast.ClassDef)
        called = owner.name if isinstance(owner, ast.ClassDef) and function.name == "__init__" else function.name
        at = parameters.index(name) - method
        found: list[Binding] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and _name(node.func) == called:
                named = next((each.value for each in node.keywords if each.arg == name), None)
                given = named or (node.args[at] if 0 <= at < len(node.args) else None)
                statement = self._statement(node)
                if given is not None and statement is not None:
                    found.append((ast.copy_location(ast.Expr(given), statement), given, ()))
        return sorted(found, key=lambda each: -each[0].lineno)

    def _statement(self, node: ast.AST) -> ast.stmt | None:
        while node in self.above and not isinstance(node, ast.stmt):
            node = self.above[node]
        return node if isinstance(node, ast.stmt) else None


def _first(steps: list[Step]) -> int | None:
    """The last statement that computed what came out; where nothing did, the one furthest back."""
    return next((step.line for step in steps if step.made), steps[-1].line if steps else None)


def _inside(value: ast.expr, which: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]]:
    """What an expression hands on: conversions, loaders and data sets taken off, and the element that is asked for."""
    for _ in range(DEEPEST):
        if isinstance(value, ast.Tuple | ast.List) and which and which[0] < len(value.elts):
            value, which = value.elts[which[0]], which[1:]
        elif isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call):
            inner = _handed_on(value, which)
            if inner is None:
                break
            value, which = inner
        else:
            break
    return value, which


def _handed_on(call: ast.Call, which: tuple[int, ...]) -> tuple[ast.expr, tuple[int, ...]] | None:
    name = _name(call.func)
    if name in CONVERTS and isinstance(call.func, ast.Attribute) and _dotted(call.func.value) not in LIBRARIES:
        return call.func.value, which
    arguments = [*call.args, *(each.value for each in call.keywords if each.arg in ("dataset", "data"))]
    if not arguments:
        return None
    if name == "enumerate":
        return arguments[0], which[1:]
    if name == "zip" and which and which[0] < len(arguments):
        return arguments[which[0]], which[1:]
    if name in HANDS_ON or name in CONVERTS or name.endswith("Loader"):
        return arguments[0], which
    if name[:1].isupper():  # a data set: its first argument is the inputs, its second the targets
        at = which[0] if which and which[0] < len(call.args) else 0
        return (arguments[at], which[1:]) if _dotted(_inside(arguments[at], which[1:])[0]) else None
    return None


def _stores(scope: ast.AST, name: str, before: int | None = None) -> list[Binding]:
    """The statements of a scope that store to a name, the last one before a line first."""
    found: list[Binding] = []
    for node in _own(scope):
        if before is not None and isinstance(node, ast.stmt) and node.lineno > before:
            continue
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found += ((node, _source_of(node, target, name), which) for which in _places(target, name))
        elif isinstance(node, ast.AugAssign) and _dotted(_whole(node.target)) == name:
            found.append((node, _whole(node.target), ()))
        elif isinstance(node, ast.AnnAssign) and node.value is not None and _dotted(node.target) == name:
            found.append((node, node.value, ()))
        elif isinstance(node, ast.For):
            found += ((node, node.iter, which) for which in _places(node.target, name))
    found = [each for each in found if before is None or each[0].lineno < before or isinstance(each[0], ast.For)]
    return sorted(found, key=lambda each: -each[0].lineno)


def _source_of(node: ast.Assign, target: ast.expr, name: str) -> ast.expr:
    """What a statement takes a value from: for one that stores into a part, the name itself as it was."""
    if isinstance(target, ast.Subscript):
        return target.value
    # Handed on as it is, or made by a function: that is followed. Computed from its own name: that as it was before.
    inner = _inside(node.value, ())[0]
    if isinstance(inner, ast.Name | ast.Attribute | ast.Tuple):
        return node.value
    called = {each.func for each in ast.walk(node.value) if isinstance(each, ast.Call)}
    names = (each for each in ast.walk(node.value) if isinstance(each, ast.Name) and each not in called)
    return next((each for each in names if each.id == name), node.value)


def _places(target: ast.expr, name: str, at: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    if isinstance(target, ast.Tuple | ast.List):
        for number, each in enumerate(target.elts):
            yield from _places(each, name, (*at, number))
    elif _dotted(_whole(target)) == name:
        yield at


def _whole(target: ast.expr) -> ast.expr:
    return target.value if isinstance(target, ast.Subscript) else target


def _is_store_into(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(isinstance(each, ast.Subscript) for each in statement.targets)


def _takes_part(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Subscript) for each in ast.walk(value))


def _splits(statement: ast.stmt) -> bool:
    calls = (
        [each for each in ast.walk(statement) if isinstance(each, ast.Call)]
        if isinstance(statement, ast.Assign)
        else []
    )
    return any(part in _name(each.func) for each in calls for part in SPLITS)


def _whole_of(
    statement: ast.stmt, value: ast.expr | None, which: tuple[int, ...]
) -> tuple[ast.expr | None, tuple[int, ...]]:
    """What a split took apart: of each of its arguments it gives two."""
    call = getattr(statement, "value", None)
    if isinstance(call, ast.Call) and which and which[0] // 2 < len(call.args):
        return call.args[which[0] // 2], which[1:]
    return value, ()


def _core(argument: ast.expr) -> ast.expr | None:
    """The name that an argument of a model comes from."""
    inner, _ = _inside(argument, ())
    return inner if _dotted(inner) and _dotted(inner) != "self" else None


def _spans_less(node: ast.Call, best: ast.expr | None, above: dict[ast.AST, ast.AST]) -> bool:
    """Whether a call lies within the one that `best` is an argument of."""
    if best is None:
        return True
    outer = above[best]
    inner: ast.AST = node
    while inner in above:
        inner = above[inner]
        if inner is outer:
            return True
    return False


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*Function, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return node.id if isinstance(node, ast.Name) else ""


def _dotted(node: ast.AST) -> str:
    """`name` or `self.name`; nothing for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return f"self.{node.attr}"
    return ""
