"""A Python source that can be asked: what stands where, what is imported under which name, what a name was made of.

Sources are read with the standard library's `ast`: a thousand lines take 0.05 s, where a tree that keeps every blank takes over
a second. Fixes are splices at exact places, so the rest of a file stays byte for byte.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Scope = Function | ast.Module
Loop = ast.For | ast.AsyncFor | ast.While

# The same thing has a function, a class and a method: one word for all of them.
OPS = {
    "cross_entropy": ("torch.nn.functional.cross_entropy", "torch.nn.CrossEntropyLoss"),
    "nll_loss": ("torch.nn.functional.nll_loss", "torch.nn.NLLLoss"),
    "kl_div": ("torch.nn.functional.kl_div", "torch.nn.KLDivLoss"),
    "bce": ("torch.nn.functional.binary_cross_entropy", "torch.nn.BCELoss"),
    "bce_with_logits": ("torch.nn.functional.binary_cross_entropy_with_logits", "torch.nn.BCEWithLogitsLoss"),
    "mse": ("torch.nn.functional.mse_loss", "torch.nn.MSELoss"),
    "softmax": ("torch.softmax", "torch.nn.functional.softmax", "torch.nn.Softmax", "torch.special.softmax"),
    "log_softmax": ("torch.log_softmax", "torch.nn.functional.log_softmax", "torch.nn.LogSoftmax"),
    "sigmoid": ("torch.sigmoid", "torch.nn.functional.sigmoid", "torch.nn.Sigmoid", "torch.special.expit"),
    "tanh": ("torch.tanh", "torch.nn.functional.tanh", "torch.nn.Tanh"),
    "relu": ("torch.relu", "torch.nn.functional.relu", "torch.nn.ReLU"),
    "log": ("torch.log",),
    "exp": ("torch.exp",),
    "sqrt": ("torch.sqrt",),
    "clamp": ("torch.clamp", "torch.clip"),
    "isnan": ("torch.isnan",),
    "flip": ("torch.flip", "torch.fliplr", "torch.flipud", "torch.rot90"),
}
OP_OF = {name: op for op, names in OPS.items() for name in names}
# Methods of tensors that are the same thing as the function.
METHODS = {"softmax", "log_softmax", "sigmoid", "tanh", "relu", "log", "exp", "sqrt", "clamp", "isnan", "flip"}


class Splice(NamedTuple):
    """Text in place of what stands between two places of a source; lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


class Python:
    """One parsed source. `line` is how many lines of its file stand before it, where it is a text inside another."""

    def __init__(self, file: str, text: str, *, line: int = 0) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.tree = ast.parse(text)
        self._by_type: dict[type, list[Any]] = {}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._index(self.tree)

    def _index(self, tree: ast.AST) -> None:
        """The one walk: all rules read what it has put by."""
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            self._by_type.setdefault(type(node), []).append(node)
            children = list(ast.iter_child_nodes(node))
            self._parents.update(dict.fromkeys(children, node))
            waiting += reversed(children)  # so that nodes come in the order of the source

    # Places

    def of(self, *kinds: type[Node]) -> list[Node]:
        """All nodes of these kinds, each kind in the order of the source."""
        return [node for kind in kinds for node in self._by_type.get(kind, ())]

    def under(self, node: ast.AST, *kinds: type[Node]) -> list[Node]:
        """The nodes of these kinds in `node`, itself included, in the order of the source."""
        found: list[Node] = [each for each in ast.walk(node) if isinstance(each, kinds)]
        return sorted(found, key=_place)

    @cached_property
    def _lines(self) -> list[bytes]:
        return [line.encode() for line in self.text.split("\n")]

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node as it is written."""
        end, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        lines = self._lines[node.lineno - 1 : end]
        lines[-1] = lines[-1][:end_column]
        lines[0] = lines[0][node.col_offset :]
        return b"\n".join(lines).decode()

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents, nearest first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def inside(self, node: ast.AST, *kinds: type[Node]) -> Node | None:
        """The nearest parent of one of these kinds."""
        return next((parent for parent in self.above(node) if isinstance(parent, kinds)), None)

    def function(self, node: ast.AST) -> Scope:
        found: Any = self.inside(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        return found if found is not None else self.tree

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The class in whose method a node stands."""
        for parent in self.above(node):
            if isinstance(parent, ast.ClassDef):
                return parent
        return None

    def loop(self, node: ast.AST) -> Loop | None:
        """The nearest loop around a node in its own function."""
        for parent in self.above(node):
            if isinstance(parent, ast.For | ast.AsyncFor | ast.While):
                return parent
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                return None
        return None

    def statement(self, node: ast.AST) -> ast.stmt:
        if isinstance(node, ast.stmt):
            return node
        return next(parent for parent in self.above(node) if isinstance(parent, ast.stmt))

    def block(self, node: ast.AST) -> list[ast.stmt]:
        """The list of statements that a node's statement is one of."""
        statement = self.statement(node)
        parent = self._parents.get(statement)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    def rest(self, node: ast.AST) -> list[ast.stmt]:
        """The statements behind a node's own in its block."""
        block = self.block(node)
        return block[block.index(self.statement(node)) + 1 :]

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Every list of statements of the file."""
        for nodes in self._by_type.values():
            for node in nodes:
                for name in ("body", "orelse", "finalbody"):
                    block = getattr(node, name, None)
                    if isinstance(block, list) and block:
                        yield block

    # Names

    @cached_property
    def imported(self) -> dict[str, str | None]:
        """From names of this file to full names; None where two imports contradict each other."""
        found: dict[str, str | None] = {}
        for node in self.of(ast.Import):
            for alias in node.names:
                bound, full = (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
                found[bound] = full if found.get(bound, full) == full else None
        for each in self.of(ast.ImportFrom):
            for alias in each.names:
                full = f"{'.' * each.level}{each.module or ''}.{alias.name}"
                bound = alias.asname or alias.name
                found[bound] = full if found.get(bound, full) == full else None
        return found

    @cached_property
    def own_names(self) -> set[str]:
        """Names that the file gives values of its own: they are not what was imported."""
        names = {node.id for node in self.of(ast.Name) if stored(node)}
        names |= {node.arg for node in self.of(ast.arg)}
        names |= {node.name for node in self.of(ast.FunctionDef)}
        return names | {node.name for node in self.of(ast.ClassDef)}

    def name(self, node: ast.AST | None) -> str:
        """The full name of what is imported, `torch.optim.AdamW`, however it is called here; empty if not certain."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self.own_names:
            return ""
        root = self.imported.get(node.id)
        return ".".join([root, *reversed(parts)]) if root else ""

    def imports(self, package: str) -> bool:
        """Whether the file imports a package or something from it."""
        return any(full and (full == package or full.startswith(f"{package}.")) for full in self.imported.values())

    def calls(self, *patterns: str) -> list[ast.Call]:
        """Calls of what is imported under one of these full names; `*` stands for anything."""
        return [call for call in self.of(ast.Call) if matches(self.name(call.func), *patterns)]

    def methods(self, *names: str) -> list[ast.Call]:
        """Calls `x.name(...)` of these methods, whatever `x` is, unless it is an imported function."""
        return [
            call
            for call in self.of(ast.Call)
            if isinstance(call.func, ast.Attribute) and call.func.attr in names and not self.name(call.func)
        ]

    # Values

    @cached_property
    def _assigned(self) -> dict[tuple[Scope, str], list[ast.stmt]]:
        """The statements that give a name or attribute its value, by function."""
        found: dict[tuple[Scope, str], list[ast.stmt]] = {}
        for node in self.of(ast.Name, ast.Attribute):
            if stored(node):
                found.setdefault((self.function(node), ast.unparse(node)), []).append(self.statement(node))
        return found

    def assignments(self, scope: Scope, target: str) -> list[ast.stmt]:
        """Every statement of a function that gives `target` a value, in the order of the source."""
        return sorted(self._assigned.get((scope, target), []), key=_place)

    def value(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        """What a name was last given before it is used, when that is certain: `name = value` on every way to here."""
        scope = self.function(node)
        here = _place(self.statement(node))
        before = [each for each in self.assignments(scope, ast.unparse(node)) if _place(each) < here]
        if not before:
            return None
        last = before[-1]
        if not isinstance(last, ast.Assign) or len(last.targets) != 1 or not isinstance(last.targets[0], type(node)):
            return None
        dominates = self._parents.get(last) in set(self.above(node)) and self.statement(node) is not last
        return last.value if dominates else None

    def origin(self, node: ast.expr) -> ast.expr:
        """The expression behind a name, through plain assignments."""
        for _ in range(8):
            if not isinstance(node, ast.Name) or (value := self.value(node)) is None:
                break
            node = value
        return node

    def made(self, node: ast.expr) -> ast.Call | None:
        """The call that made an object, where all assignments of the file to that name agree on what is called."""
        if isinstance(node, ast.Call):
            return node
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        statements = self._makers(node)
        calls = [each.value for each in statements if isinstance(each, ast.Assign | ast.AnnAssign)]
        if not calls or len(calls) != len(statements):
            return None
        # `net = Net(); net = net.to(device)`: the second one makes nothing.
        calls = [call for call in (_core(call) for call in calls) if ast.unparse(call) != ast.unparse(node)]
        made = [call for call in calls if isinstance(call, ast.Call)]
        alike = len({ast.unparse(call.func) for call in made}) == 1
        return made[0] if alike and len(made) == len(calls) else None

    def _makers(self, node: ast.Name | ast.Attribute) -> list[ast.stmt]:
        text = ast.unparse(node)
        if text.startswith("self."):
            owner = self.owner(node)
            scopes = [scope for scope, name in self._assigned if name == text and self.owner(scope) is owner]
            return [each for scope in scopes for each in self.assignments(scope, text)]
        scope = self.function(node)
        own = self.assignments(scope, text)
        if not own and not (isinstance(scope, Function) and text in _parameters(scope)):
            own = self.assignments(self.tree, text)
        return own

    def op(self, node: ast.AST) -> str:
        """One word for what a call does (see OPS), whether by function, by method or by an instance; empty if not known."""
        if not isinstance(node, ast.Call):
            return ""
        func = node.func
        if (full := self.name(func)) in OP_OF:
            return OP_OF[full]
        if isinstance(func, ast.Attribute) and func.attr in METHODS and not full and not _is_self(func):
            return func.attr
        made = self.made(func)
        return OP_OF.get(self.name(made.func), "") if made is not None and made is not node else ""

    # Classes

    @cached_property
    def modules(self) -> dict[str, ast.ClassDef]:
        """The classes of this file that are `nn.Module`s by their own word or by that of a parent in this file."""
        known: dict[str, ast.ClassDef] = {}
        classes = self.of(ast.ClassDef)
        for _ in classes:  # each round finds the children of those that are known
            size = len(known)
            known |= {each.name: each for each in classes if any(self._is_module(base, known) for base in each.bases)}
            if len(known) == size:
                break
        return known

    def _is_module(self, base: ast.expr, known: dict[str, ast.ClassDef]) -> bool:
        full = self.name(base)
        own = full.startswith("torch.nn.") and full.endswith(".Module")
        return own or full.endswith(".LightningModule") or (isinstance(base, ast.Name) and base.id in known)

    def in_module(self, node: ast.AST) -> bool:
        """Whether a node stands in a class that is an `nn.Module`."""
        owner = self.owner(node)
        return owner is not None and owner in self.modules.values()

    def makes_module(self, node: ast.AST) -> bool:
        """Whether a call makes an `nn.Module`: a layer of `torch.nn` or a class of this file."""
        if not isinstance(node, ast.Call):
            return False
        full = self.name(node.func)
        if full.startswith("torch.nn.") and not full.startswith(("torch.nn.functional.", "torch.nn.init.")):
            return full.rpartition(".")[2][:1].isupper() and not full.endswith(("Parameter", "ParameterList"))
        return isinstance(node.func, ast.Name) and node.func.id in self.modules

    # Training

    @cached_property
    def trains(self) -> bool:
        """Whether the file itself goes backward and steps."""
        return bool(self.methods("backward")) and bool(self.methods("step"))

    def has_word(self, *words: str) -> bool:
        """Whether one of these words stands anywhere in the text: the cheapest way to be silent."""
        return any(word in self.text for word in words)


def matches(name: str, *patterns: str) -> bool:
    return bool(name) and any(fnmatchcase(name, pattern) for pattern in patterns)


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call gives for `name`, by keyword or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or any(isinstance(arg, ast.Starred) for arg in call.args[: position + 1]):
        return None
    return call.args[position] if position < len(call.args) else None


def splat(call: ast.Call) -> bool:
    """Whether `*args` or `**kwargs` may bring what the source does not show."""
    return any(keyword.arg is None for keyword in call.keywords) or any(
        isinstance(arg, ast.Starred) for arg in call.args
    )


def constant(node: ast.AST | None) -> Any:
    """The value of a literal, also of a negative number; None for what is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = constant(node.operand)
        return -inner if isinstance(inner, int | float) else None
    return node.value if isinstance(node, ast.Constant) else None


def stored(node: ast.AST) -> bool:
    """Whether a name or attribute is given a value here."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def loaded(node: ast.AST) -> bool:
    """Whether a name or attribute is read here."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def method(node: ast.AST) -> tuple[str, str]:
    """`("opt", "step")` of `opt.step(...)`, also as a statement; two empty words for anything else."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return ast.unparse(node.func.value), node.func.attr
    return "", ""


def replaced(node: ast.expr | ast.stmt, text: str) -> Splice:
    """The splice that puts `text` where a node stands."""
    return Splice(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0, text)


def with_keyword(call: ast.Call, source: Python, text: str) -> Splice:
    """The splice that adds `name=value` at the end of a call's arguments."""
    end_line, end_column = call.end_lineno or 0, (call.end_col_offset or 0) - 1
    line = source.text.split("\n")[end_line - 1].encode()[:end_column].rstrip()
    lead = "" if not (call.args or call.keywords) else (" " if line.endswith(b",") else ", ")
    return Splice(end_line, end_column, end_line, end_column, lead + text)


def spliced(text: str, splices: list[Splice]) -> str:
    """The text with the splices in it; of two that overlap the earlier one only."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode()) + 1)
    raw = text.encode()
    taken = len(raw) + 1
    for splice in sorted(set(splices), reverse=True):
        low = starts[splice.line - 1] + splice.column
        high = starts[splice.end_line - 1] + splice.end_column
        if high <= taken:
            raw = raw[:low] + splice.text.encode() + raw[high:]
            taken = low
    return raw.decode()


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _parameters(scope: Function) -> set[str]:
    spec = scope.args
    return {arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg) if arg}


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


# What may be called on a module that was made a moment ago, and gives the module back.
SAME = {"to", "cuda", "cpu", "train", "eval", "float", "double", "half", "bfloat16", "requires_grad_", "apply"}


def _core(node: ast.expr | None) -> ast.expr:
    """`Net(1)` of `Net(1).to(device).train()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
        node = node.func.value
    return node if node is not None else ast.Constant(None)
