"""A distributed sampler is never told the epoch.

Looks for:  a `DistributedSampler` that shuffles, in a file with a loop over epochs that trains, and no `set_epoch`.
Wrong:      one sampler for all epochs: every epoch has the same order.
Right:      `sampler.set_epoch(epoch)` at the beginning of each epoch.
Not this:   `shuffle=False`; frameworks that call it; a file that builds the sampler and does not train.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

FRAMEWORKS = ("lightning", "accelerate", "transformers", "ignite")


@lint(
    fix="call `sampler.set_epoch(epoch)` at the beginning of each epoch",
    layer="data",
    stage="data",
    confidence=0.85,
    watched=("frozen-shuffle",),
)
def unset_epoch(source: Python) -> Iterator[Hit]:
    if "DistributedSampler" not in source.text or "set_epoch" in source.text or not source.trains:
        return
    epochs = [loop for loop in source.of(ast.For) if "epoch" in ast.unparse(loop.target)]
    if not epochs or any(source.imports(name) for name in FRAMEWORKS):
        return
    for call in source.calls("torch.utils.data.*DistributedSampler"):
        if constant(argument(call, "shuffle", 3)) is not False:
            yield Hit(call, "the sampler is never told the epoch, so every epoch has the same order")


BAD = (
    """\
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(data)
for epoch in range(9):
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
""",
)
GOOD = (
    """\
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(data)
for epoch in range(9):
    sampler.set_epoch(epoch)
    for x, y in loader:
        f(model(x), y).backward()
        opt.step()
""",
    """\
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(data, shuffle=False)
for epoch in range(9):
    f(model(x), y).backward()
    opt.step()
""",
)
