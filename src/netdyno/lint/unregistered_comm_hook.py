"""A communication hook is imported and never registered.

Looks for:  an import of a hook from `torch.distributed.algorithms.ddp_comm_hooks` whose name is not used.
Wrong:      `from ...default_hooks import fp16_compress_hook`, and nothing else
Right:      `ddp_model.register_comm_hook(None, fp16_compress_hook)`
Not this:   a module that only passes names on.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python


@lint(
    fix="register it: `ddp_model.register_comm_hook(state=None, hook=...)`",
    layer="compute",
    stage="speed",
    ledger=("C-085",),
    confidence=0.8,
)
def unregistered_comm_hook(source: Python) -> Iterator[Hit]:
    if (
        "ddp_comm_hooks" not in source.text
        or "register_comm_hook" in source.text
        or source.file.endswith("__init__.py")
    ):
        return
    used = {node.id for node in source.of(ast.Name)}
    for each in source.of(ast.ImportFrom):
        for alias in each.names if "ddp_comm_hooks" in (each.module or "") else ():
            bound = alias.asname or alias.name
            if alias.name.endswith("_hook") and bound not in used and "__all__" not in used:
                yield Hit(each, f"`{bound}` is imported and never registered, so nothing is compressed")


BAD = (
    "from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook\nmodel = wrap(model)\n",
)
GOOD = (
    """\
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
model.register_comm_hook(None, fp16_compress_hook)
""",
)
