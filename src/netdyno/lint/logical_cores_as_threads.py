"""As many threads are set as there are logical cores of the machine.

Looks for:  `torch.set_num_threads(os.cpu_count())` and the like.
Wrong:      `os.cpu_count()`: it counts hyper-threads, and cores that this process may not use.
Right:      physical cores within `len(os.sched_getaffinity(0))`, measured.
Not this:   a number that is computed from it; the default, which is right on most machines.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

COUNTS = ("os.cpu_count", "multiprocessing.cpu_count", "torch.multiprocessing.cpu_count")


@lint(
    fix="leave PyTorch's default, or set the physical cores within `os.sched_getaffinity(0)`",
    layer="compute",
    stage="speed",
    ledger=("C-088",),
    confidence=0.5,  # where the two counts are the same it is right
)
def logical_cores_as_threads(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.set_num_threads"):
        behind = source.origin(call.args[0]) if call.args else None
        if isinstance(behind, ast.Call) and source.name(behind.func) in COUNTS:
            yield Hit(call, "hyper-threads are counted as cores, and cores that this process may not use")


BAD = ("import os\nimport torch\ntorch.set_num_threads(os.cpu_count())\n",)
GOOD = (
    "import os\nimport torch\ntorch.set_num_threads(len(os.sched_getaffinity(0)) // 2)\n",
    "import torch\ntorch.set_num_threads(4)\n",
)
