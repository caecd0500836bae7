"""The room's own tools: find a call in somebody's source, and put something else there without touching the rest."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameSource,
    ScopeProvider,
)

OPTIMIZERS = {"ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "RAdam"}
OPTIMIZERS |= {"RMSprop", "Rprop", "SGD", "SparseAdam"}
# Positions of DataLoader's arguments; what comes after them is given by keyword only.
LOADER = (
    "dataset",
    "batch_size",
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
)
# What may be called on a model that was made a moment ago, and gives the model back.
SELF = {"to", "cuda", "cpu", "train", "eval", "float", "double", "half", "bfloat16", "requires_grad_", "apply"}


class Uncertain(Exception):
    """This source cannot be changed with certainty: why, and at which line of it (0 where there is none)."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.line = line


def uncertain(why: str, line: int = 0) -> NoReturn:
    raise Uncertain(why, line)


class Assigned(NamedTuple):
    """`name = call(...)`, alone in its statement."""

    name: str
    statement: cst.SimpleStatementLine
    value: cst.BaseExpression


class Code:
    """A parsed source that can be asked: where stands what, under which name was it imported, what is around it."""

    def __init__(self, module: cst.Module) -> None:
        self.module = module
        wrapper = MetadataWrapper(module, unsafe_skip_copy=True)  # so that nodes found here can be replaced by identity
        self._positions = wrapper.resolve(PositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self._scopes = wrapper.resolve(ScopeProvider)
        self.nodes = tuple(node for node in self._positions if isinstance(node, cst.CSTNode))

    def text(self, node: cst.CSTNode) -> str:
        """The source of a node, without the comments above it."""
        if isinstance(node, cst.SimpleStatementLine):
            node = node.with_changes(leading_lines=[])
        return self.module.code_for_node(node).strip()

    def line(self, node: cst.CSTNode) -> int:
        return self._positions[node].start.line

    def last_line(self, node: cst.CSTNode) -> int:
        return self._positions[node].end.line

    def spans(self, node: cst.CSTNode, line: int) -> bool:
        return self.line(node) <= line <= self.last_line(node)

    def before(self, one: cst.CSTNode, other: cst.CSTNode) -> bool:
        a, b = self._positions[one].start, self._positions[other].start
        return (a.line, a.column) < (b.line, b.column)

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Parents, nearest first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def inside(self, node: cst.CSTNode, kind: type[cst.CSTNode] | tuple[type[cst.CSTNode], ...]) -> cst.CSTNode | None:
        """The nearest parent of a kind."""
        return next((parent for parent in self.above(node) if isinstance(parent, kind)), None)

    def function(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Module:
        found = self.inside(node, cst.FunctionDef)
        return found if isinstance(found, cst.FunctionDef) else self.module

    def within(self, kind: type[cst.CSTNode], node: cst.CSTNode) -> list[cst.CSTNode]:
        """All nodes of a kind under `node`, in the order of the source."""
        found = [each for each in self.nodes if isinstance(each, kind) and (each is node or node in self.above(each))]
        return sorted(found, key=self._place)

    def calls(self) -> list[cst.Call]:
        found = [node for node in self.nodes if isinstance(node, cst.Call)]
        return sorted(found, key=self._place)

    def _place(self, node: cst.CSTNode) -> tuple[int, int]:
        start = self._positions[node].start
        return start.line, start.column

    def name(self, node: cst.CSTNode) -> str | None:
        """The full name of what is imported: `torch.optim.AdamW`, however it is called here. None if not certain."""
        scope = self._scopes.get(node)
        scope = scope() if callable(scope) else scope
        names = scope.get_qualified_names_for(node) if scope is not None else set()
        if len(names) != 1:
            return None
        (only,) = names
        return only.name if only.source is QualifiedNameSource.IMPORT else None

    def torch(self) -> str | None:
        """Under which name the module `torch` stands at the top of this file."""
        return next((bound for bound, _ in self.torch_imports()), None)

    def torch_imports(self) -> Iterator[tuple[str, cst.SimpleStatementLine]]:
        for statement in self.module.body:
            if not isinstance(statement, cst.SimpleStatementLine):
                continue
            for small in statement.body:
                for alias in small.names if isinstance(small, cst.Import) else ():
                    full = self.text(alias.name)
                    if full == "torch" and alias.asname is not None:
                        yield self.text(alias.asname.name), statement
                    elif alias.asname is None and full.partition(".")[0] == "torch":
                        yield "torch", statement

    def assigned(self, value: cst.CSTNode) -> Assigned | None:
        """The assignment whose whole right side is `value`, to one name or attribute."""
        parents = list(self.above(value))
        if len(parents) < 2 or not isinstance(parents[1], cst.SimpleStatementLine):
            return None
        small, line = parents[0], parents[1]
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and small.value is value:
            target: cst.BaseExpression = small.targets[0].target
        elif isinstance(small, cst.AnnAssign) and small.value is value:
            target = small.target
        else:
            return None
        if not isinstance(target, cst.Name | cst.Attribute):
            return None
        return Assigned(self.text(target), line, value)  # type: ignore[arg-type]

    def replaced(self, new: Mapping[Any, Callable[..., object]]) -> cst.Module:
        """The module where each of these nodes became what its function makes of it."""
        changed = self.module.visit(_Replacing({id(node): make for node, make in new.items()}))
        return changed if isinstance(changed, cst.Module) else self.module


class _Replacing(cst.CSTTransformer):
    def __init__(self, new: Mapping[int, Callable[..., object]]) -> None:
        super().__init__()
        self._new = new

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        make = self._new.get(id(original_node))
        return make(updated_node) if make is not None else updated_node


# Finding


def is_optimizer(name: str | None) -> bool:
    return name is not None and name.startswith("torch.optim.") and name.rpartition(".")[2] in OPTIMIZERS


def is_loader(name: str | None) -> bool:
    return name is not None and name.startswith("torch.utils.data.") and name.endswith(".DataLoader")


def calls_of(code: Code, wanted: Callable[[str | None], bool]) -> list[cst.Call]:
    return [call for call in code.calls() if wanted(code.name(call.func))]


def chosen(
    code: Code, wanted: Callable[[str | None], bool], lines: Iterable[int], thing: str, *, elsewhere: bool
) -> list[cst.Call]:
    """The calls that ran at these lines; without lines the only such call of the file, unless it ran elsewhere."""
    candidates = calls_of(code, wanted)
    found: list[cst.Call] = []
    for line in lines:
        here = [call for call in candidates if code.spans(call, line)]
        if len(here) != 1:
            uncertain(_why_not(code, line, thing, here), line)
        found += [call for call in here if call not in found]
    if found or elsewhere or not candidates:
        return found
    if len(candidates) > 1:
        at = ", ".join(str(code.line(call)) for call in candidates)
        uncertain(f"{thing} is made in {len(candidates)} places (lines {at}), and it was not seen which one trains")
    return candidates


def _why_not(code: Code, line: int, thing: str, here: list[cst.Call]) -> str:
    if here:
        return f"line {line} makes more than one {thing}"
    if any(code.spans(call, line) and "getattr" in code.text(call.func) for call in code.calls()):
        return f"line {line} picks the class by `getattr`, so the source does not say what it makes"
    return f"line {line} makes {thing} by a name that the source does not tie to PyTorch's class"


def only(code: Code, wanted: Callable[[str | None], bool]) -> cst.Call | None:
    """The one call of a kind; None when there is none."""
    found = calls_of(code, wanted)
    if len(found) > 1:
        lines = ", ".join(str(code.line(call)) for call in found)
        uncertain(f"`{code.text(found[0].func)}` is called in several places (lines {lines})", code.line(found[0]))
    return found[0] if found else None


def models(code: Code, lines: Iterable[int], *, elsewhere: bool) -> list[Assigned]:
    """The assignments `model = Net(...)`, also with `.to(device)` behind; without lines the only one of the file."""
    found: list[Assigned] = []
    for line in lines:
        here = [made for made in _made(code, lambda _: True) if code.spans(made.statement, line)]
        if len(here) != 1 or not _stands_for_model(code, here[0]):
            uncertain(f"line {line} makes the model, but is no assignment of it to one name", line)
        found += [made for made in here if made not in found]
    if found:
        return found
    if elsewhere:
        uncertain("the model is made in another file")
    candidates = list(_made(code, lambda call: _is_model(code, call)))
    if len(candidates) != 1:
        uncertain(
            f"the source has {len(candidates)} assignments that make a model, so it does not say which one trains"
        )
    return candidates


def _stands_for_model(code: Code, made: Assigned) -> bool:
    """Whether the name is the model's, not that of something which holds it: a learner, a trainer."""
    if isinstance(made.value, cst.Call) and _is_model(code, _core(made.value)):
        return True
    return any(code.text(call.func) in {f"{made.name}.parameters", f"{made.name}.state_dict"} for call in code.calls())


def _made(code: Code, wanted: Callable[[cst.Call], bool]) -> Iterator[Assigned]:
    for call in code.calls():
        made = code.assigned(call)
        if made is not None and wanted(_core(call)):
            yield made


def _core(call: cst.Call) -> cst.Call:
    """`Net(1)` of `Net(1).to(device).train()`."""
    while (
        isinstance(call.func, cst.Attribute) and call.func.attr.value in SELF and isinstance(call.func.value, cst.Call)
    ):
        call = call.func.value
    return call


def _is_model(code: Code, call: cst.Call) -> bool:
    if code.inside(call, cst.ClassDef) is not None and _in_module_class(code, call):
        return False  # a layer of a model, not the model
    name = code.name(call.func) or ""
    if name == "torch.nn.Sequential" or name.startswith("torchvision.models.") or name == "timm.create_model":
        return True
    return isinstance(call.func, cst.Name) and call.func.value in {each.name.value for each in module_classes(code)}


def _in_module_class(code: Code, node: cst.CSTNode) -> bool:
    return any(parent in module_classes(code) for parent in code.above(node) if isinstance(parent, cst.ClassDef))


def module_classes(code: Code) -> list[cst.ClassDef]:
    """The classes of this file that are `nn.Module`s by their own word or by that of a parent in this file."""
    classes = [node for node in code.nodes if isinstance(node, cst.ClassDef)]
    known: list[cst.ClassDef] = []
    for _ in classes:  # each round finds the children of those that are known
        names = {each.name.value for each in known}
        known = [each for each in classes if any(_is_module(code, base.value, names) for base in each.bases)]
    return known


def _is_module(code: Code, base: cst.BaseExpression, names: set[str]) -> bool:
    full = code.name(base) or ""
    own = full.startswith("torch.nn.") and full.endswith(".Module")
    return own or full.endswith(".LightningModule") or code.text(base) in names


# Changing calls


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument that a call gives for `name`, by keyword or by position."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None and arg.keyword.value == name:
            return arg
        if index == position and arg.keyword is None and not arg.star:
            return arg
    return None


def refuse_splat(code: Code, call: cst.Call, name: str) -> None:
    """Raises where `**kwargs` may bring the argument already: giving it twice is an error of Python."""
    for arg in call.args:
        if arg.star:
            source = code.text(arg.value)
            uncertain(
                f"the arguments come from `{arg.star}{source}`{_filled(code, source)}, which may bring `{name}` already; "
                f"write it there by hand",
                code.line(call),
            )


def filled_here(code: Code, call: cst.Call) -> bool:
    """True when every `**kwargs` of the call is a name that this file fills itself."""
    return all(_filled(code, code.text(arg.value)) for arg in call.args if arg.star)


def _filled(code: Code, name: str) -> str:
    places = [
        code.line(node)
        for node in code.nodes
        if (isinstance(node, cst.AssignTarget) and code.text(node.target).partition("[")[0] == name)
        or (isinstance(node, cst.Call) and code.text(node.func) == f"{name}.update")
    ]
    return f" (filled at line {', '.join(map(str, sorted(places)))})" if places else ""


def value_of(code: Code, arg: cst.Arg | None) -> str | None:
    return None if arg is None else code.text(arg.value)


def setting(
    code: Code, call: cst.Call, name: str, value: str, position: int | None = None
) -> Callable[[cst.Call], cst.Call]:
    """What makes of this call the same call with `name=value`: replaced where it stands, else written at the end."""
    there = argument(call, name, position)
    if there is None:
        refuse_splat(code, call, name)
        return lambda updated: with_keyword(updated, name, value)
    if code.text(there.value) == value:
        return lambda updated: updated
    index = list(call.args).index(there)
    return lambda updated: _with_arg(
        updated, index, updated.args[index].with_changes(value=cst.parse_expression(value))
    )


def _with_arg(call: cst.Call, index: int, arg: cst.Arg) -> cst.Call:
    return call.with_changes(args=(*call.args[:index], arg, *call.args[index + 1 :]))


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """The call with one more argument, written as the author writes the others."""
    new = cst.Arg(
        keyword=cst.Name(name),
        value=cst.parse_expression(value),
        equal=cst.AssignEqual(whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")),
    )
    if not call.args:
        return call.with_changes(args=(new,))
    *others, last = call.args
    between = _between(call)
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        between, closing = _keeping_comment(between, closing)
        last = last.with_changes(comma=last.comma.with_changes(whitespace_after=between))
        new = new.with_changes(comma=cst.Comma(whitespace_after=closing))
    else:
        closing = last.whitespace_after_arg
        between, closing = _keeping_comment(between, closing)
        last = last.with_changes(
            whitespace_after_arg=cst.SimpleWhitespace(""), comma=cst.Comma(whitespace_after=between)
        )
        new = new.with_changes(whitespace_after_arg=closing)
    return call.with_changes(args=(*others, last, new))


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What the author puts between two arguments."""
    commas = [arg.comma for arg in call.args[:-1] if isinstance(arg.comma, cst.Comma)]
    if commas:
        return _plain(commas[-1].whitespace_after)
    if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
        return _plain(call.whitespace_before_args)
    return cst.SimpleWhitespace(" ")


def _plain(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def _keeping_comment(
    between: cst.BaseParenthesizableWhitespace, closing: cst.BaseParenthesizableWhitespace
) -> tuple[cst.BaseParenthesizableWhitespace, cst.BaseParenthesizableWhitespace]:
    """A comment behind the last argument stays behind it when another argument comes after."""
    commented = isinstance(closing, cst.ParenthesizedWhitespace) and (
        closing.first_line.comment is not None or any(line.comment for line in closing.empty_lines)
    )
    if not commented or not isinstance(closing, cst.ParenthesizedWhitespace):
        return between, closing
    line = between if isinstance(between, cst.ParenthesizedWhitespace) else closing
    kept = line.with_changes(first_line=closing.first_line, empty_lines=closing.empty_lines)
    return kept, closing.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def without_arg(call: cst.Call, name: str, position: int | None = None) -> cst.Call:
    """The call without one argument; the ones around it close up."""
    keep = [
        arg
        for index, arg in enumerate(call.args)
        if not ((arg.keyword is not None and arg.keyword.value == name) or (index == position and not arg.keyword))
    ]
    if keep and len(keep) < len(call.args):
        last = call.args[-1]
        keep[-1] = keep[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=keep)


# Changing statements


def line_of(source: str, leading: Iterable[cst.EmptyLine] = ()) -> cst.SimpleStatementLine:
    statement = cst.parse_statement(source)
    assert isinstance(statement, cst.SimpleStatementLine)
    return statement.with_changes(leading_lines=tuple(leading))


def followed_by(source: str) -> Callable[[cst.CSTNode], object]:
    """What makes of a statement the same one with another line behind it."""
    return lambda updated: cst.FlattenSentinel([updated, line_of(source)])


Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


def after_imports(code: Code, statements: Iterable[Statement], *, blank: int = 1) -> cst.Module:
    """The module with statements behind its imports at the top, and so behind docstring and `__future__`.

    `blank` lines stand between them and what follows.
    """
    place = _end_of_imports(code)
    body = list(code.module.body)
    if place < len(body):
        body[place] = _apart(body[place], blank)
    return code.module.with_changes(body=[*body[:place], *statements, *body[place:]])


def _apart(statement: Statement, blank: int) -> Statement:
    """The statement with at least so many blank lines above it and its comments."""
    leading = list(statement.leading_lines)  # type: ignore[union-attr]
    there = next((index for index, line in enumerate(leading) if line.comment is not None), len(leading))
    return statement.with_changes(leading_lines=[*blanks(blank - there), *leading])


def blanks(count: int) -> list[cst.EmptyLine]:
    return [cst.EmptyLine(indent=False) for _ in range(count)]


def class_from(source: str) -> list[Statement]:
    """The one class of a source, set apart as classes are."""
    (found,) = cst.parse_module(source).body
    return [_apart(found, 2)]


def _end_of_imports(code: Code) -> int:
    """Where the imports end: behind the last of the first run of them, or behind the one of torch if that is later."""
    torch_lines = [statement for _, statement in code.torch_imports()]
    least = max((code.module.body.index(statement) for statement in torch_lines), default=-1)
    place = 0
    for index, statement in enumerate(code.module.body):
        if _is_import(statement) or (index == 0 and _is_docstring(statement)):
            place = index + 1
        elif index > least:
            break
    return place


def _is_docstring(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def _is_import(statement: cst.CSTNode) -> bool:
    """An import, or a `try` or `if` that holds nothing but imports."""
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body)
    if isinstance(statement, cst.Try | cst.If) and isinstance(statement.body, cst.IndentedBlock):
        return all(_is_import(inner) for inner in statement.body.body)
    return False


def block_of(code: Code, statement: cst.CSTNode) -> cst.IndentedBlock | cst.Module:
    parent = next(code.above(statement))
    if not isinstance(parent, cst.IndentedBlock | cst.Module):
        uncertain("the statement shares its line with the one around it", code.line(statement))
    return parent


def statement_at(code: Code, line: int) -> cst.SimpleStatementLine | None:
    found = [node for node in code.nodes if isinstance(node, cst.SimpleStatementLine) and code.spans(node, line)]
    return found[0] if len(found) == 1 else None
