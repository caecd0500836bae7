"""Work on the GPU is timed without waiting for it, or a latency is measured with gradients on.

Looks for:  two readings of a clock in one function around a forward pass, where the function moves things to CUDA and
            waits nowhere; or where the model is in evaluation and gradients are recorded.
Wrong:      `t = time.time(); model(x); print(time.time() - t)`: it times the launch.
Right:      `torch.cuda.synchronize()` before each reading, `torch.inference_mode()` around, several repeats.
Not this:   loops that read results (`item`, `cpu`, `tolist`), which wait; training; work on the CPU.
"""

import ast
from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._python import Python

CLOCKS = ("time.time", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "timeit.default_timer")
WAITS = ("synchronize", ".item(", ".cpu(", ".tolist(", ".numpy(", "Event(", "backward", "print(loss", "float(")
MODELS = {"model", "net", "network", "self.model"}


@lint(
    fix="call `torch.cuda.synchronize()` before each reading of the clock, under `torch.inference_mode()`",
    layer="compute",
    stage="note",
    ledger=("C-030", "C-065"),
    confidence=0.75,
)
def unsynchronised_timing(source: Python) -> Iterator[Hit]:
    readings: dict[ast.AST, list[ast.Call]] = {}
    for call in source.calls(*CLOCKS):
        readings.setdefault(source.function(call), []).append(call)
    for scope, calls in readings.items():
        code = ast.unparse(scope)
        first, last = calls[0].lineno, calls[-1].lineno
        between = [
            call
            for call in source.under(scope, ast.Call)
            if first <= call.lineno <= last and ast.unparse(call.func) in MODELS
        ]
        if len(calls) < 2 or not between or any(word in code for word in WAITS):
            continue
        if ".cuda()" in code or '"cuda' in code or "'cuda" in code:
            yield Hit(calls[0], "the clock is read before the GPU is done: this times the launch of the work")
        elif ".eval()" in code and not source.has_word("no_grad", "inference_mode", "set_grad_enabled"):
            yield Hit(
                calls[0],
                "the latency is measured with gradients recorded",
                "time it under `torch.inference_mode()`",
                REMARK,
            )


BAD = (
    """\
import time
def latency(model, x):
    model.cuda()
    x = x.cuda()
    start = time.time()
    model(x)
    return time.time() - start
""",
    """\
import time
def latency(model, x):
    model.eval()
    start = time.perf_counter()
    model(x)
    return time.perf_counter() - start
""",
)
GOOD = (
    """\
import time, torch
def latency(model, x):
    model.cuda()
    torch.cuda.synchronize()
    start = time.perf_counter()
    model(x)
    torch.cuda.synchronize()
    return time.perf_counter() - start
""",
    """\
import time
def epoch(model, loader):
    start = time.time()
    for x, y in loader:
        f(model(x.cuda()), y).backward()
    print(time.time() - start)
""",
)
