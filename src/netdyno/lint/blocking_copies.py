"""Batches from pinned memory are copied one after another instead of beside the work.

Looks for:  a loader with `pin_memory=True`, and in the loop over it `x.cuda()` or `x.to(device)` without `non_blocking`.
Wrong:      `x = x.to(device)`: pinning costs time and is not used.
Right:      `x = x.to(device, non_blocking=True)`
Not this:   loaders that are not pinned; a file that runs on the CPU only; copies outside of the loop.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, argument, constant, method, with_keyword


@lint(
    fix="pass `non_blocking=True` to the copy",
    layer="data",
    stage="speed",
    ledger=("C-005", "C-057"),
    confidence=REMARK,  # how much it wins is for a measurement to say
)
def blocking_copies(source: Python) -> Iterator[Hit]:
    if not source.has_word("cuda") or source.has_word("non_blocking"):
        return
    loaders = {
        ast.unparse(each.targets[0])
        for each in source.of(ast.Assign)
        if isinstance(each.value, ast.Call)
        and source.name(each.value.func).startswith("torch.utils.data.")
        and constant(argument(each.value, "pin_memory")) is True
    }
    for loop in source.of(ast.For):
        over = {ast.unparse(node) for node in ast.walk(loop.iter)}
        names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        if not loaders & over:
            continue
        for call in source.under(loop, ast.Call):
            owner, name = method(call)
            if owner in names and name in {"to", "cuda"} and "cpu" not in ast.unparse(call):
                says = f"`{ast.unparse(call)}` waits for its copy, though the loader pins its batches"
                yield Hit(call, says, edits=(with_keyword(call, source, "non_blocking=True"),))


BAD = (
    """\
from torch.utils.data import DataLoader
device = "cuda"
loader = DataLoader(data, batch_size=64, pin_memory=True)
for x, y in loader:
    x = x.to(device)
    y = y.cuda()
""",
)
GOOD = (
    """\
from torch.utils.data import DataLoader
device = "cuda"
loader = DataLoader(data, batch_size=64, pin_memory=True)
for x, y in loader:
    x = x.to(device, non_blocking=True)
""",
    """\
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=64)
for x, y in loader:
    x = x.to("cuda")
""",
)
