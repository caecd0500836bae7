"""Let the training loader cut whole batches out of a `TensorDataset`, instead of collecting them row by row.

Certain:    `DataLoader(TensorDataset(...), ...)`, or one with a name that is assigned once in the same function.
Left alone: data sets of other kinds, a `collate_fn` of one's own, rows that are to live on the device.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._loaders import Maker, loaders
from netdyno.edits._tree import (
    Code,
    after_imports,
    argument,
    class_from,
    refuse_splat,
    uncertain,
    value_of,
    with_keyword,
)
from netdyno.records.trial import Scalar

KINDS = ("loaders",)
STAGE = 3
CLASS = '''
class BatchedRows:
    """A TensorDataset that gives a whole batch at once: one indexing per tensor, in the form a DataLoader collates."""

    def __init__(self, dataset):
        self.tensors = dataset.tensors

    def __len__(self):
        return len(self.tensors[0])

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices):
        return [tensor[indices] for tensor in self.tensors]
'''


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    if settings.get("where", "host") != "host":
        uncertain("rows that live on the device change how the loop takes its batches")
    calls = loaders(code, here)
    if not calls:
        uncertain("no call of `DataLoader` here takes the training data set")
    new = {call: change for call in calls if (change := _batched(code, call)) is not None}
    if not new:
        return code.module
    if any(isinstance(node, cst.ClassDef) and node.name.value == "BatchedRows" for node in code.nodes):
        return code.replaced(new)
    return after_imports(Code(code.replaced(new)), class_from(CLASS), blank=2)


def _batched(code: Code, call: cst.Call) -> Maker | None:
    dataset, line = argument(call, "dataset", 0), code.line(call)
    if dataset is None:
        uncertain("the call does not say which data set it reads", line)
    if code.text(dataset.value).startswith("BatchedRows("):
        return None
    if not _is_tensors(code, dataset.value):
        uncertain(f"`{code.text(dataset.value)}` is no `TensorDataset` by the source's own words", line)
    for name, position in (("collate_fn", 6), ("batch_sampler", 4)):
        if argument(call, name, position) is not None:
            uncertain(f"the loader has a `{name}` of its own", line)
    if value_of(code, argument(call, "batch_size", 1)) == "None":
        uncertain("the loader makes no batches", line)
    refuse_splat(code, call, "collate_fn")
    index = list(call.args).index(dataset)
    return lambda updated: with_keyword(_wrapped(updated, index), "collate_fn", "list")


def _is_tensors(code: Code, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Call):
        name = code.name(value.func) or ""
        return name.startswith("torch.utils.data.") and name.endswith(".TensorDataset")
    if not isinstance(value, cst.Name):
        return False
    makers = [
        node
        for node in code.nodes
        if isinstance(node, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.For | cst.NamedExpr)
        and code.function(node) is code.function(value)
        and _targets(code, node, value.value)
    ]
    given = any(isinstance(node, cst.Param) and node.name.value == value.value for node in code.nodes)
    only = makers[0] if len(makers) == 1 and not given else None
    return isinstance(only, cst.Assign) and len(only.targets) == 1 and _is_tensors_call(code, only.value)


def _is_tensors_call(code: Code, value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Call) and _is_tensors(code, value)


def _targets(code: Code, node: cst.CSTNode, name: str) -> bool:
    targets = (
        [each.target for each in node.targets] if isinstance(node, cst.Assign) else [getattr(node, "target", None)]
    )
    return any(
        target is not None
        and any(isinstance(each, cst.Name) and each.value == name for each in code.within(cst.Name, target))
        for target in targets
    )


def _wrapped(call: cst.Call, index: int) -> cst.Call:
    inner = call.args[index]
    kept = cst.Call(cst.Name("BatchedRows"), [cst.Arg(inner.value)])
    return call.with_changes(args=[*call.args[:index], inner.with_changes(value=kept), *call.args[index + 1 :]])
