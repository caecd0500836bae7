"""Determinism is asked for and benchmarking with it.

Looks for:  `torch.backends.cudnn.deterministic = True` and `torch.backends.cudnn.benchmark = True`, both without a condition.
Wrong:      both: benchmarking picks another algorithm from run to run.
Right:      `torch.use_deterministic_algorithms(True)` with `benchmark = False`, or benchmarking alone.
Not this:   the two branches of a setting; a value that is set back.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, constant, replaced


@lint(
    fix="set `cudnn.benchmark = False` for repeatable runs, and call `torch.use_deterministic_algorithms(True)`",
    layer="reproducibility",
    stage="use",
    ledger=("C-024",),
    confidence=0.75,
)
def half_determinism(source: Python) -> Iterator[Hit]:
    flags: dict[str, list[ast.Assign]] = {"deterministic": [], "benchmark": []}
    for each in source.of(ast.Assign):
        name = source.name(each.targets[0]) if isinstance(each.targets[0], ast.Attribute) else ""
        if name.startswith("torch.backends.cudnn.") and name.rpartition(".")[2] in flags:
            flags[name.rpartition(".")[2]].append(each)
    ones = [each for every in flags.values() for each in every]
    both = len(flags["deterministic"]) == len(flags["benchmark"]) == 1
    plain = all(constant(each.value) is True and source.inside(each, ast.If) is None for each in ones)
    if both and plain and len({source.function(each) for each in ones}) == 1:
        (benchmark,) = flags["benchmark"]
        says = "`cudnn.benchmark` may pick another algorithm in each run, though determinism is asked for"
        yield Hit(benchmark, says, edits=(replaced(benchmark.value, "False"),))


BAD = ("import torch\ntorch.backends.cudnn.deterministic = True\ntorch.backends.cudnn.benchmark = True\n",)
GOOD = (
    "import torch\ntorch.backends.cudnn.deterministic = True\ntorch.backends.cudnn.benchmark = False\n",
    "import torch\nif fast:\n    torch.backends.cudnn.benchmark = True\nelse:\n    torch.backends.cudnn.deterministic = True\n",
    "import torch\ntorch.backends.cudnn.benchmark = True\n",
)
