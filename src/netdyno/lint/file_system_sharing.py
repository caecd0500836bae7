"""Tensors are shared through files to get around a small shared memory.

Looks for:  `torch.multiprocessing.set_sharing_strategy("file_system")`.
Wrong:      as a cure for "no space left": files may be left behind when a process dies.
Right:      a larger shared memory (`--shm-size`), or fewer batches in flight.
Not this:   the default strategy; systems that allow no other.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant


@lint(
    fix="enlarge the shared memory, or lower `num_workers` and `prefetch_factor`",
    layer="memory",
    stage="note",
    ledger=("C-026",),
    confidence=0.5,  # some systems leave no choice
)
def file_system_sharing(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.multiprocessing.set_sharing_strategy"):
        if constant(argument(call, "new_strategy", 0)) == "file_system":
            yield Hit(call, "tensors are shared through files, which stay behind when a process dies")


BAD = ('import torch\ntorch.multiprocessing.set_sharing_strategy("file_system")\n',)
GOOD = ('import torch\ntorch.multiprocessing.set_sharing_strategy("file_descriptor")\n',)
