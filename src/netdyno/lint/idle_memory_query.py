"""A memory reading is asked for and not used, or a current reading is called the peak.

Looks for:  a line that is only `torch.cuda.memory_reserved()` or a sister of it; and `peak = torch.cuda.memory_allocated()`.
Wrong:      `torch.cuda.memory_reserved()` to reserve memory: it only reads a number.
Right:      `torch.cuda.set_per_process_memory_fraction(...)`; for peaks `max_memory_allocated()`.
Not this:   a reading that is printed or kept; a running maximum of current readings.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, replaced

READS = (
    "memory_allocated",
    "memory_reserved",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_cached",
    "mem_get_info",
)


@lint(
    fix="use the reading, or call what changes something; a peak is `torch.cuda.max_memory_allocated()`",
    layer="memory",
    stage="note",
    ledger=("C-019", "C-032"),
    confidence=0.8,
)
def idle_memory_query(source: Python) -> Iterator[Hit]:
    for each in source.of(ast.Expr):
        if isinstance(each.value, ast.Call) and source.name(each.value.func) in {
            f"torch.cuda.{name}" for name in READS
        }:
            yield Hit(each, f"`{ast.unparse(each)}` only reads a number, and nobody uses it")
    for call in source.calls("torch.cuda.memory_allocated"):
        statement = source.statement(call)
        if (
            isinstance(statement, ast.Assign)
            and "peak" in ast.unparse(statement.targets[0]).lower()
            and not _running(source, call)
        ):
            name = ast.unparse(call.func)
            edit = replaced(call.func, name.replace("memory_allocated", "max_memory_allocated"))
            yield Hit(call, f"`{name}` is the memory in use now, not the peak", edits=(edit,))


def _running(source: Python, call: ast.Call) -> bool:
    return any(isinstance(parent, ast.Call) and ast.unparse(parent.func) == "max" for parent in source.above(call))


BAD = (
    "import torch\ntorch.cuda.memory_reserved()\n",
    "import torch\npeak_mb = torch.cuda.memory_allocated() / 2**20\n",
)
GOOD = (
    "import torch\nprint(torch.cuda.memory_reserved())\npeak = torch.cuda.max_memory_allocated()\n",
    "import torch\npeak = max(peak, torch.cuda.memory_allocated())\n",
)
