"""The best weights are kept as a reference to the weights that go on learning.

Looks for:  `best = model.state_dict()` (or `best = model`) under a condition in a loop, without a copy, and a use of
            `best` after the loop.
Wrong:      `if acc > best_acc: best_state = model.state_dict()`: it changes with every later step.
Right:      `best_state = copy.deepcopy(model.state_dict())`, or save it to a file at once.
Not this:   a state that is saved or loaded in the same block; one that is cloned; a model that the loop makes anew.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Loop, Python, Splice, loaded, method, replaced, stored


@lint(
    fix="keep a copy: `copy.deepcopy(model.state_dict())`",
    layer="deployment",
    stage="use",
    confidence=0.9,
    watched=("aliased-best-state",),
)
def best_state_alias(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Assign):
        target = each.targets[0]
        model = _aliased(each.value) or _same(each)
        loop = source.loop(each)
        if model is None or loop is None or not isinstance(target, ast.Name | ast.Attribute):
            continue
        kept = ast.unparse(target)
        if source.block(each) is loop.body or not _learns(source, loop):
            continue
        if not _made_in(source, each, model) and _used_later(source, each, kept) and not _used_here(source, each, kept):
            yield Hit(
                each,
                f"`{kept}` is no copy: it goes on changing with `{model}`",
                edits=_edits(source, each.value),
            )


def _aliased(value: ast.expr) -> str | None:
    """The model of `model.state_dict()`, also through `dict(...)` and `.copy()`, which copy no tensor."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) in {"dict", "OrderedDict"} and len(value.args) == 1:
        value = value.args[0]
    owner, name = method(value)
    if name == "copy" and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        owner, name = method(value.func.value)
    return owner if name == "state_dict" else None


def _same(each: ast.Assign) -> str | None:
    """`model` of `best_model = model`."""
    target = ast.unparse(each.targets[0])
    if isinstance(each.value, ast.Name) and "best" in target and "model" in target and "model" in each.value.id:
        return each.value.id
    return None


def _learns(source: Python, loop: Loop) -> bool:
    """Whether training goes on around the place: a step, or a call of something that trains."""
    calls = [ast.unparse(call.func).lower().rpartition(".")[2] for call in source.under(loop, ast.Call)]
    return any(name == "step" or name.startswith(("train", "fit", "run_epoch")) for name in calls)


def _made_in(source: Python, each: ast.stmt, model: str) -> bool:
    """Whether the outermost loop around gives the name of the model a new value."""
    loops = [parent for parent in source.above(each) if isinstance(parent, ast.For | ast.While)]
    learning = source.loop(each)
    return learning is not None and any(
        ast.unparse(node) == model and stored(node)
        for loop in loops[:1]
        for node in source.under(loop, ast.Name, ast.Attribute)
    )


def _used_later(source: Python, each: ast.stmt, kept: str) -> bool:
    loop = source.loop(each)
    end = getattr(loop, "end_lineno", 0) or 0
    scope = source.function(each)
    return any(
        loaded(node)
        and ast.unparse(node) == kept
        and (node.lineno > end if isinstance(node, ast.Name) else True)
        and (source.function(node) is scope or kept.startswith("self."))
        for node in source.of(ast.Name, ast.Attribute)
    )


def _used_here(source: Python, each: ast.stmt, kept: str) -> bool:
    """Whether what follows in the block uses it at once: then it is no keepsake."""
    return any(
        ast.unparse(node) == kept and loaded(node)
        for statement in source.rest(each)
        for node in source.under(statement, ast.Name, ast.Attribute)
    )


def _edits(source: Python, value: ast.expr) -> tuple[Splice, ...]:
    deepcopy = next(
        (each for each in ("copy.deepcopy", "deepcopy") if source.name(ast.parse(each, mode="eval").body)), ""
    )
    segment = source.segment(value)
    plain = method(value)[1] == "state_dict"
    return (replaced(value, f"{deepcopy}({segment})"),) if deepcopy and segment and plain else ()


BAD = (
    """\
import copy
best, best_state = 0, None
for epoch in range(30):
    train(model)
    acc = evaluate(model)
    if acc > best:
        best = acc
        best_state = model.state_dict()
model.load_state_dict(best_state)
""",
    """\
def fit(model, opt):
    for epoch in range(3):
        opt.step()
        if better():
            best_model = model
    return best_model
""",
)
GOOD = (
    """\
import copy
for epoch in range(30):
    train(model)
    if acc > best:
        best_state = copy.deepcopy(model.state_dict())
model.load_state_dict(best_state)
""",
    """\
import torch
for epoch in range(30):
    train(model)
    if acc > best:
        state = model.state_dict()
        torch.save(state, "best.pt")
""",
    """\
for seed in range(3):
    model = Net()
    train(model)
    if acc > best:
        best_state = model.state_dict()
        best_model = model
use(best_state, best_model)
""",
    """\
for epoch in range(30):
    train(model)
    if acc > best:
        best_state = {k: v.clone() for k, v in model.state_dict().items()}
model.load_state_dict(best_state)
""",
)
