"""Spawned processes run the script from the top again.

Looks for:  `set_start_method("spawn")`, a loader with `multiprocessing_context="spawn"` or `mp.spawn(...)` at the top of a
            script, with no `if __name__ == "__main__"`.
Wrong:      `mp.spawn(train, nprocs=2)` at the top level: every child starts children.
Right:      put what starts them under `if __name__ == "__main__":`
Not this:   calls inside functions; a file with the guard.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

STARTS = ("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn", "torch.multiprocessing.start_processes")


@lint(
    fix='put what starts processes under `if __name__ == "__main__":`',
    layer="data",
    stage="failure",
    ledger=("C-093",),
    confidence=0.85,
)
def unguarded_spawn(source: Python) -> Iterator[Hit]:
    if "spawn" not in source.text or "__main__" in source.text:
        return
    for call in source.of(ast.Call):
        if not isinstance(source.function(call), ast.Module):
            continue
        context = argument(call, "multiprocessing_context")
        loader = source.name(call.func) == "torch.utils.data.DataLoader" and constant(context) in {
            "spawn",
            "forkserver",
        }
        if source.name(call.func) in STARTS or (loader and _iterated(source, call)):
            yield Hit(
                call, f"`{ast.unparse(call.func)}` starts this file again in each child, which starts children too"
            )


def _iterated(source: Python, call: ast.Call) -> bool:
    """Whether the loader is used at the top of the script as well."""
    statement = source.statement(call)
    name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
    return any(
        name
        and name in {ast.unparse(node) for node in ast.walk(loop.iter)}
        and isinstance(source.function(loop), ast.Module)
        for loop in source.of(ast.For)
    )


BAD = (
    "import torch.multiprocessing as mp\ndef train(rank):\n    pass\nmp.spawn(train, nprocs=2)\n",
    """\
from torch.utils.data import DataLoader
loader = DataLoader(data, num_workers=2, multiprocessing_context="spawn")
for x, y in loader:
    print(x)
""",
)
GOOD = (
    'import torch.multiprocessing as mp\nif __name__ == "__main__":\n    mp.spawn(train, nprocs=2)\n',
    "import torch.multiprocessing as mp\ndef main():\n    mp.spawn(train, nprocs=2)\n",
)
