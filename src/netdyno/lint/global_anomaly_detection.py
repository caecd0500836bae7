"""Anomaly detection stays on for the whole run.

Looks for:  `torch.autograd.set_detect_anomaly(True)` as a line that no condition guards.
Wrong:      `torch.autograd.set_detect_anomaly(True)` at the top: every backward records where each operation was made.
Right:      `with torch.autograd.detect_anomaly():` around what is being looked for.
Not this:   a line under a debug flag; the context manager; tests.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

NAMES = ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly")


@lint(
    fix="remove it, or enter `torch.autograd.detect_anomaly()` only around what is being looked for",
    layer="compute",
    stage="speed",
    ledger=("C-023",),
    confidence=0.85,
    watched=("anomaly-mode",),
)
def global_anomaly_detection(source: Python) -> Iterator[Hit]:
    for call in source.calls(*NAMES):
        statement = source.parent(call)
        guarded = source.inside(call, ast.If, ast.Try) is not None
        if isinstance(statement, ast.Expr) and constant(argument(call, "mode", 0)) is True and not guarded:
            yield Hit(call, "every backward of the run pays for tracing where each operation was made")


BAD = ("import torch\ntorch.autograd.set_detect_anomaly(True)\n",)
GOOD = (
    "import torch\nif args.debug:\n    torch.autograd.set_detect_anomaly(True)\n",
    "import torch\nwith torch.autograd.set_detect_anomaly(True):\n    loss.backward()\n",
    "import torch\ntorch.autograd.set_detect_anomaly(False)\n",
)
