"""Put forward pass and loss under `torch.autocast(..., dtype=torch.bfloat16)`, and leave backward outside.

Certain:    assignments that follow one another in one block, from the model's call to the loss, with `loss.backward()`
            after them; `TrainingArguments(bf16=True)` of transformers, `Trainer(precision="bf16-mixed")` of Lightning,
            `Accelerator(mixed_precision="bf16")`.
Left alone: a forward pass and a backward that stand in different blocks or functions, other statements between them, a
            loss that is scaled for float16, outputs that go to NumPy, which has no bfloat16.
"""

from collections.abc import Mapping
from typing import NamedTuple

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._frameworks import accelerator, fastai, hugging, lightning, skorch
from netdyno.edits._tree import Code, Uncertain, argument, calls_of, models, only, setting, uncertain, value_of
from netdyno.records.trial import Scalar

KINDS = ("forwards", "backwards")
STAGE = 30
ACCELERATORS = ("cuda", "mps", "xpu", "device")


class Region(NamedTuple):
    """What goes under the context: statements of one block, from the forward pass to the loss."""

    block: cst.IndentedBlock | cst.Module
    first: int
    last: int
    forward: cst.Call
    loss: str


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    for wanted, name, value, same in (
        (hugging, "bf16", "True", ("True",)),
        (lightning, "precision", '"bf16-mixed"', ('"bf16-mixed"', "'bf16-mixed'", '"bf16"')),
        (accelerator, "mixed_precision", '"bf16"', ('"bf16"', "'bf16'")),
    ):
        if (call := only(code, wanted)) is not None:
            return _told(code, call, name, value, same)
    if calls_of(code, skorch) or calls_of(code, fastai):
        uncertain("the loop is the framework's own, and its call has no argument for it")
    regions = _regions(code, here)
    torch = code.torch()
    if regions and torch is None:
        uncertain("the module `torch` is not imported under a name of its own here")
    for region in regions:
        _refuse_numpy(code, region)
    contexts = [f"{torch}.autocast({_device(code, region, here)}, dtype={torch}.bfloat16)" for region in regions]
    blocks = {id(region.block): region.block for region in regions}
    new = {}
    for block in blocks.values():
        inside = [(r, context) for r, context in zip(regions, contexts, strict=True) if r.block is block]
        new[block] = lambda updated, inside=inside: _wrapped(updated, inside)
    return code.replaced(new)


def _told(code: Code, call: cst.Call, name: str, value: str, same: tuple[str, ...]) -> cst.Module:
    written = value_of(code, argument(call, name))
    if written in same:
        return code.module
    if written not in (None, "False", "None", "32", '"no"', "'no'", '"32"', '"32-true"'):
        uncertain(f"`{name}` is {written} already", code.line(call))
    if value_of(code, argument(call, "fp16")) not in (None, "False"):
        uncertain("`fp16` is set already", code.line(call))
    return code.replaced({call: setting(code, call, name, value)})


# Finding what goes under the context


def _regions(code: Code, here: Here) -> list[Region]:
    forwards = _forwards(code, here)
    open_ones = [call for call in forwards if not _under_autocast(code, call)]
    regions: list[Region] = []
    for backward in _backwards(code, here) if open_ones else ():
        region = _region(code, backward, open_ones, regions)
        if region is not None:
            regions.append(region)
    for call in open_ones:
        if not any(_holds(code, region, call) for region in regions) and not _only_looks(code, call):
            uncertain("this forward pass and its backward do not stand in one block", code.line(call))
    return regions


def _only_looks(code: Code, call: cst.Call) -> bool:
    """True in a function that gives nothing back and differentiates nothing: it draws pictures, in whatever precision."""
    function = code.function(call)
    if isinstance(function, cst.Module):
        return False
    returns = [each for each in code.within(cst.Return, function) if isinstance(each, cst.Return)]
    kept = any(each.value is not None for each in returns) or bool(code.within(cst.Yield, function))
    stored = [
        each
        for each in code.within(cst.AssignTarget, function)
        if isinstance(each, cst.AssignTarget) and not isinstance(each.target, cst.Name | cst.Tuple)
    ]
    shared = code.within(cst.Global, function) or code.within(cst.Nonlocal, function)
    return not (kept or stored or shared or ".backward(" in code.text(function))


def _forwards(code: Code, here: Here) -> list[cst.Call]:
    """The calls of the model: the outermost at a line that was seen, or those of the one model of the file."""
    found: list[cst.Call] = []
    for line in here.lines("forwards"):
        at = [call for call in code.calls() if code.spans(call, line) and _statement(code, call) is not None]
        if not at:
            uncertain(f"line {line} calls the model, but not in a statement of its own", line)
        found.append(_the_model(code, at, here))
    if found:
        return found
    if here.elsewhere("forwards"):
        uncertain("the model is called in another file")
    names = {made.name for made in models(code, here.lines("models"), elsewhere=here.elsewhere("models"))}
    functions = {id(code.function(backward)) for backward in _backwards(code, here)}
    found = [call for call in code.calls() if code.text(call.func) in names and id(code.function(call)) in functions]
    found = [call for call in found if not _without_gradients(code, call)]
    if not found:
        uncertain(f"no call of `{'`, `'.join(sorted(names))}` stands in one function with a `backward`")
    return found


def _without_gradients(code: Code, call: cst.Call) -> bool:
    contexts = [item for block in code.above(call) if isinstance(block, cst.With) for item in block.items]
    return any(code.text(item).endswith(("no_grad()", "inference_mode()")) for item in contexts)


def _the_model(code: Code, calls: list[cst.Call], here: Here) -> cst.Call:
    """Which of the calls at a line is the model's: the one whose name is a model's or has parameters, else the first."""
    try:
        names = {made.name for made in models(code, here.lines("models"), elsewhere=here.elsewhere("models"))}
    except Uncertain:  # an unknown maker of the model does not matter where its call was seen
        names = set()
    # `loss(net(x), y)` is two calls of modules, and only one of them has weights that somebody asks for.
    names |= {
        code.text(call.func.value)
        for call in code.calls()
        if isinstance(call.func, cst.Attribute) and _weights(call.func)
    }
    return next((call for call in calls if code.text(call.func) in names), calls[0])


def _weights(asked: cst.Attribute) -> bool:
    return asked.attr.value in ("parameters", "named_parameters", "state_dict")


def _statement(code: Code, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    found = code.inside(node, cst.SimpleStatementLine)
    return found if isinstance(found, cst.SimpleStatementLine) else None


def _backwards(code: Code, here: Here) -> list[cst.Call]:
    calls = [
        call for call in code.calls() if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"
    ]
    if lines := here.lines("backwards"):
        return [call for call in calls if any(code.spans(call, line) for line in lines)]
    if len(calls) != 1:
        uncertain(f"the file has {len(calls)} calls of `backward`, and it was not seen which one trains")
    return calls


def _region(code: Code, backward: cst.Call, forwards: list[cst.Call], taken: list[Region]) -> Region | None:
    """The statements of one backward's block from the first forward pass that is still free to the loss."""
    end = _statement(code, backward)
    block = next(code.above(end)) if end is not None else None
    if end is None or not isinstance(block, cst.IndentedBlock | cst.Module):
        uncertain("`backward` shares its line with other code", code.line(backward))
    loss, stop = _loss_of(code, backward), list(block.body).index(end)
    start = max((region.last + 1 for region in taken if region.block is block), default=0)
    indices = {id(statement): index for index, statement in enumerate(block.body)}
    free = [(indices.get(id(_statement(code, call)), -1), call) for call in forwards]
    free = [(index, call) for index, call in free if start <= index < stop]
    if not free:
        return None
    first, forward = min(free, key=lambda each: each[0])
    last = max((index for index in range(first, stop) if loss in _assigned(code, block.body[index])), default=-1)
    if last < 0:
        uncertain(f"`{loss}` is not assigned between the forward pass and its backward", code.line(backward))
    for statement in block.body[first : last + 1]:
        if not _may_stand_inside(code, statement):
            uncertain("between forward pass and loss stands more than assignments", code.line(statement))
    return Region(block, first, last, forward, loss)


def _loss_of(code: Code, backward: cst.Call) -> str:
    """`loss` of `loss.backward()` or `(loss / n).backward()`."""
    assert isinstance(backward.func, cst.Attribute)
    receiver = backward.func.value
    text = code.text(receiver)
    if ".scale(" in text:
        uncertain("the loss is scaled for float16 already", code.line(backward))
    names = (
        [text] if isinstance(receiver, cst.Attribute) else [code.text(each) for each in code.within(cst.Name, receiver)]
    )
    if not names:
        uncertain(f"`{text}` is no loss with a name", code.line(backward))
    return names[0]


def _assigned(code: Code, statement: cst.CSTNode) -> set[str]:
    """Names and attributes that an assignment sets, inside tuples too."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    targets: list[cst.BaseExpression] = []
    for small in statement.body:
        if isinstance(small, cst.Assign):
            targets += [each.target for each in small.targets]
        elif isinstance(small, cst.AugAssign | cst.AnnAssign):
            targets.append(small.target)
    flat = [
        element.value for target in targets for element in (target.elements if isinstance(target, cst.Tuple) else ())
    ]
    return {code.text(target) for target in [*targets, *flat]}


def _may_stand_inside(code: Code, statement: cst.CSTNode) -> bool:
    """An assignment, or a call of `zero_grad`, which computes nothing that a context could change."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(
        isinstance(small, cst.Assign | cst.AugAssign | cst.AnnAssign)
        or (isinstance(small, cst.Expr) and code.text(small.value).endswith("zero_grad()"))
        for small in statement.body
    )


def _under_autocast(code: Code, call: cst.Call) -> bool:
    """Whether the call runs in bfloat16 already. Another context is the author's choice, and raises."""
    for around in code.above(call):
        for item in around.items if isinstance(around, cst.With) else ():
            text = code.text(item)
            if "autocast" in text and "bfloat16" in text:
                return True
            if "autocast" in text or text in {"ctx", "amp_ctx"}:
                uncertain("the forward pass runs under a context of the script's own", code.line(around))
    return False


def _holds(code: Code, region: Region, call: cst.Call) -> bool:
    statement = _statement(code, call)
    return any(each is statement for each in region.block.body[region.first : region.last + 1])


def _refuse_numpy(code: Code, region: Region) -> None:
    """NumPy has no bfloat16: an output that is handed to it would raise."""
    wrapped = region.block.body[region.first : region.last + 1]
    names = set().union(*(_assigned(code, statement) for statement in wrapped)) - {region.loss}
    for call in code.within(cst.Call, code.function(region.forward)):
        text = code.text(call)
        if text.endswith(".numpy()") and any(text.startswith(f"{name}.") for name in names):
            uncertain(f"`{text}` would meet bfloat16, which NumPy does not have", code.line(call))


# Writing


def _device(code: Code, region: Region, here: Here) -> str:
    """The kind of device as the source can say it."""
    if not any(word in code.module.code for word in ACCELERATORS):
        return '"cpu"'
    if _device_is_known(code, region):
        return "device.type"
    callee = code.text(region.forward.func)
    try:
        names = {made.name for made in models(code, here.lines("models"), elsewhere=here.elsewhere("models"))}
    except Uncertain:  # then the source does not say
        names = set()
    # What was seen to be called on this line was a model.
    seen = code.line(region.forward) in here.lines("forwards")
    if callee not in names and not (seen and isinstance(region.forward.func, cst.Name)):
        uncertain("the source does not say on which device the model runs", code.line(region.forward))
    return f"next({callee}.parameters()).device.type"


def _device_is_known(code: Code, region: Region) -> bool:
    """Whether this function uses the name `device`, and all it ever stands for is a `torch.device`."""
    function = code.function(region.forward)
    used = any(isinstance(node, cst.Name) and node.value == "device" for node in code.within(cst.Name, function))
    made = [node.value for node in code.nodes if isinstance(node, cst.Assign) and _names_device(code, node)]
    return used and bool(made) and all(isinstance(v, cst.Call) and code.name(v.func) == "torch.device" for v in made)


def _names_device(code: Code, node: cst.Assign) -> bool:
    return any(code.text(target.target) == "device" for target in node.targets)


def _wrapped(block: cst.IndentedBlock | cst.Module, inside: list[tuple[Region, str]]) -> cst.IndentedBlock | cst.Module:
    body = list(block.body)
    for region, context in sorted(inside, key=lambda each: -each[0].first):
        first, *rest = body[region.first : region.last + 1]
        assert isinstance(first, cst.SimpleStatementLine)
        around = cst.With(
            items=[cst.WithItem(cst.parse_expression(context))],
            body=cst.IndentedBlock([first.with_changes(leading_lines=[]), *rest]),
            leading_lines=first.leading_lines,
        )
        body[region.first : region.last + 1] = [around]
    return block.with_changes(body=body)
