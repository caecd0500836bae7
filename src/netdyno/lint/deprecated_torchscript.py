"""The model leaves by a way that PyTorch has deprecated.

Looks for:  `torch.jit.trace`, `torch.jit.script`, `torch.jit.freeze`; the old namespace `torch.quantization`.
Wrong:      `torch.jit.freeze(torch.jit.trace(model, x))` in new code
Right:      `torch.export.export(model, (x,))`, ONNX, or `torch.compile`; `torchao` for quantisation
Not this:   decorators that make single functions scriptable; loading a file that exists.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python

JIT = (
    "torch.jit.trace",
    "torch.jit.freeze",
    "torch.jit.script",
    "torch.jit.trace_module",
    "torch.jit.optimize_for_inference",
)
OLD = "torch.quantization."


@lint(
    fix="export with `torch.export`, ONNX or `torch.compile`; quantise with `torchao`",
    layer="deployment",
    stage="note",
    ledger=("C-066", "C-013", "C-077"),
    confidence=0.5,  # it works, and there may be a reason
)
def deprecated_torchscript(source: Python) -> Iterator[Hit]:
    for call in source.of(ast.Call):
        full = source.name(call.func)
        if full in JIT or full.startswith(OLD):
            yield Hit(call, f"`{full}` is deprecated")


BAD = (
    "import torch\ntraced = torch.jit.freeze(torch.jit.trace(model, x))\n",
    "import torch\nq = torch.quantization.quantize_dynamic(model)\n",
)
GOOD = (
    "import torch\nprogram = torch.export.export(model, (x,))\nold = torch.jit.load('model.pt')\n",
    "import torch\n@torch.jit.script\ndef f(x: torch.Tensor):\n    return x\n",
)
