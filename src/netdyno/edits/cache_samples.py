"""Put a small class into the source that keeps a data set's samples, and wrap it around the training loader's data set.

Certain:    `DataLoader(dataset, ...)` under any import, seen at its line or the only one of the file.
Left alone: a loader with a `collate_fn`, which may change samples in place; a function that makes several loaders;
            a script that asks its loader's data set for more than samples.
"""

from collections.abc import Mapping

import libcst as cst

from netdyno.edits._base import Here
from netdyno.edits._loaders import Maker, loaders
from netdyno.edits._tree import Code, after_imports, argument, class_from, filled_here, refuse_splat, uncertain
from netdyno.records.trial import Scalar

KINDS = ("loaders",)
STAGE = 2
CLASS = '''
class KeptSamples:
    """The samples of another data set, read once and kept in memory."""

    def __init__(self, dataset):
        self.samples = [dataset[index] for index in range(len(dataset))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]
'''


def edit(code: Code, settings: Mapping[str, Scalar], here: Here) -> cst.Module:
    calls = loaders(code, here)
    if not calls:
        uncertain("no call of `DataLoader` here takes the training data set")
    new = {call: change for call in calls if (change := _kept(code, call)) is not None}
    if not new:
        return code.module
    if any(isinstance(node, cst.ClassDef) and node.name.value == "KeptSamples" for node in code.nodes):
        return code.replaced(new)
    return after_imports(Code(code.replaced(new)), class_from(CLASS), blank=2)


def _kept(code: Code, call: cst.Call) -> Maker | None:
    """What wraps the data set of this call; None where it is wrapped already."""
    dataset, line = argument(call, "dataset", 0), code.line(call)
    if dataset is None:
        uncertain("the call does not say which data set it reads", line)
    if code.text(dataset.value).startswith("KeptSamples("):
        return None
    if argument(call, "collate_fn", 6) is not None:
        uncertain("`collate_fn` may change samples in place, and kept ones would stay changed", line)
    # A file that never says the word fills no dictionary with it.
    if "collate_fn" in code.module.code or not filled_here(code, call):
        refuse_splat(code, call, "collate_fn")
    _refuse_shared(code, call)
    _refuse_asked(code)
    index = list(call.args).index(dataset)
    return lambda updated: _wrapped(updated, index)


def _wrapped(call: cst.Call, index: int) -> cst.Call:
    inner = call.args[index]
    kept = cst.Call(cst.Name("KeptSamples"), [cst.Arg(inner.value)])
    return call.with_changes(args=[*call.args[:index], inner.with_changes(value=kept), *call.args[index + 1 :]])


def _refuse_shared(code: Code, call: cst.Call) -> None:
    function = code.function(call)
    if isinstance(function, cst.Module):
        return
    name = function.name.value
    users = [each for each in code.calls() if code.text(each.func).rpartition(".")[2] == name]
    if len(users) > 1:
        uncertain(f"`{name}` makes several loaders, and the samples of all would be kept", code.line(call))


def _refuse_asked(code: Code) -> None:
    """`loader.dataset.classes` would ask the wrapper for what it does not have."""
    for node in code.nodes:
        if (
            isinstance(node, cst.Attribute)
            and isinstance(node.value, cst.Attribute)
            and node.value.attr.value == "dataset"
        ):
            uncertain(f"`{code.text(node)}` asks the data set for more than samples", code.line(node))
