"""BatchNorm is converted after the model was wrapped for several processes.

Looks for:  `convert_sync_batchnorm(model)` behind `model = DistributedDataParallel(model)` in the same block.
Wrong:      wrap, then convert: the wrapper has hooked the old layers.
Right:      convert, then wrap.
Not this:   another model.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

WRAPS = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")


@lint(
    fix="call `convert_sync_batchnorm` before the model is wrapped",
    layer="optimisation",
    stage="order",
    ledger=("C-053",),
    confidence=0.9,
)
def sync_batchnorm_after_wrapping(source: Python) -> Iterator[Hit]:
    if "convert_sync_batchnorm" not in source.text:
        return
    for call in source.of(ast.Call):
        if not ast.unparse(call.func).endswith("convert_sync_batchnorm") or not call.args:
            continue
        block = source.block(call)
        before = block[: block.index(source.statement(call))]
        name = ast.unparse(call.args[0])
        if any(_wraps(source, each, name) for each in before):
            yield Hit(call, f"`{name}` was wrapped for several processes before its BatchNorm layers are converted")


def _wraps(source: Python, statement: ast.stmt, name: str) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == name
        and isinstance(statement.value, ast.Call)
        and source.name(statement.value.func) in WRAPS
    )


BAD = (
    """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(model)
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
""",
)
GOOD = (
    """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
model = DDP(model)
""",
)
