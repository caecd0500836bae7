"""A checkpoint is allowed to run code when it is loaded.

Looks for:  `torch.load(..., weights_only=False)`.
Wrong:      `torch.load(path, weights_only=False)` for a file from elsewhere
Right:      `torch.load(path, weights_only=True)`, the default, with `add_safe_globals` for what it must know
Not this:   the default.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant


@lint(
    fix="load weights only; name the classes that a file needs with `torch.serialization.add_safe_globals`",
    layer="deployment",
    stage="note",
    ledger=("C-089",),
    confidence=0.5,  # of a file of one's own it is no danger
)
def unpickled_checkpoint(source: Python) -> Iterator[Hit]:
    for call in source.calls("torch.load"):
        if constant(argument(call, "weights_only")) is False:
            yield Hit(call, "the file may run any code when it is loaded")


BAD = ('import torch\nstate = torch.load("last.pt", weights_only=False)\n',)
GOOD = (
    'import torch\nstate = torch.load("last.pt")\n',
    'import torch\nstate = torch.load("last.pt", weights_only=True)\n',
)
