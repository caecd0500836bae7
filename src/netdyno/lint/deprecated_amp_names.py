"""Mixed precision is called by names that are on their way out.

Looks for:  `torch.cuda.amp.autocast`, `torch.cuda.amp.GradScaler`, `torch.cpu.amp.autocast`.
Wrong:      `torch.cuda.amp.autocast()`: a FutureWarning today, an error one day.
Right:      `torch.amp.autocast("cuda")`, `torch.amp.GradScaler("cuda")`
Not this:   `torch.cuda.amp.custom_fwd` and other names of that module.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python, Splice, replaced

OLD = {
    "torch.cuda.amp.autocast": "cuda",
    "torch.cuda.amp.GradScaler": "cuda",
    "torch.cuda.amp.autocast_mode.autocast": "cuda",
    "torch.cpu.amp.autocast": "cpu",
}


@lint(
    fix='write `torch.amp.autocast("cuda")` and `torch.amp.GradScaler("cuda")`',
    layer="reproducibility",
    stage="note",
    ledger=("C-004",),
    confidence=REMARK,  # it works today
)
def deprecated_amp_names(source: Python) -> Iterator[Hit]:
    if not source.has_word(".amp"):
        return
    for call in source.of(ast.Call):
        device = OLD.get(source.name(call.func))
        if device is not None:
            yield Hit(call, f"`{ast.unparse(call.func)}` is deprecated", edits=_edits(source, call, device))


def _edits(source: Python, call: ast.Call, device: str) -> tuple[Splice, ...]:
    """Only where the whole path is written out, so that no import has to change."""
    text = ast.unparse(call.func)
    if (
        not text.endswith((".cuda.amp.autocast", ".cuda.amp.GradScaler", ".cpu.amp.autocast"))
        or call.lineno != call.func.end_lineno
    ):
        return ()
    name = text.replace(f".{device}.amp.", ".amp.")
    end = call.func.end_col_offset or 0
    rest = '"%s", ' % device if call.args or call.keywords else '"%s"' % device  # noqa: UP031
    line = source.text.split("\n")[call.lineno - 1].encode()
    opening = line[end : end + 1] == b"("
    return (replaced(call.func, name), Splice(call.lineno, end + 1, call.lineno, end + 1, rest)) if opening else ()


BAD = (
    "import torch\nscaler = torch.cuda.amp.GradScaler(enabled=amp)\nwith torch.cuda.amp.autocast():\n    y = model(x)\n",
    "from torch.cuda.amp import autocast\nwith autocast():\n    y = model(x)\n",
)
GOOD = ('import torch\nscaler = torch.amp.GradScaler("cuda")\nwith torch.autocast("cuda"):\n    y = model(x)\n',)
