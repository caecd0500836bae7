"""Which lines of the user's code read a tensor's value back into Python.

Measures:         every `.item()`, `float()`, `bool()`, `.tolist()`, `.numpy()`, `nonzero`, `tensor[mask]` and their like in forward, loss,
                  backward, optimizer and log: file, line, calls per step, and the seconds they took together.
                  On a device each of them waits for all work before it. Data loading is left out: it reads host memory.
Costs:            a few updates under two modes that look at every call: tens of microseconds per operator.
Leaves no trace:  the modes end with the block, the subject trains on, and is put back afterwards.
"""

import os
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import netdyno
from netdyno.measure.step import one_batch, train_on, turning
from netdyno.measure.stopwatch import Clock, between, thread_clock
from netdyno.probes._base import probe
from netdyno.records.evidence import Place, SyncSite, SyncSites
from netdyno.targets.subject import Subject

WATCHED = 3  # steps: enough to tell "every step" from "now and then"

# Calls as Python sees them, and how a person writes them.
CALLS = {
    "item": ".item()", "tolist": ".tolist()", "numpy": ".numpy()", "nonzero": "nonzero", "masked_select": "masked_select",
    "__bool__": "bool(tensor)", "__float__": "float(tensor)", "__int__": "int(tensor)", "__index__": "index(tensor)",
    "__contains__": "in tensor", "equal": "equal", "allclose": "allclose", "unique": "unique", "__repr__": "repr(tensor)",
    "__format__": "format(tensor)", "__array__": "array(tensor)",
}  # fmt: skip
# Operators that read values back, whichever call of Python's reached them.
OPERATORS = {
    torch.ops.aten._local_scalar_dense: ".item()",
    torch.ops.aten.nonzero: "nonzero",
    torch.ops.aten.masked_select: "masked_select",
    torch.ops.aten.equal: "equal",
}

Key = tuple[str, int, str]
_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(netdyno.__file__) + os.sep
_GARAGE = os.path.join(_OURS, "targets", "garage") + os.sep


@probe
def collect(subject: Subject, *, clock: Clock | None = None, steps: int = WATCHED) -> SyncSites:
    clock = clock or thread_clock()
    batch = one_batch(subject)
    found = Found(clock)
    count = min(WATCHED, steps)
    with turning(subject):
        train_on(subject, batch)  # what only the first step reads is no part of a step
        for _ in range(count):
            with ByCall(found), ByOperator(found):
                loss = train_on(subject, batch).detach()
                _logged(subject, loss, found)
    sites = tuple(
        SyncSite(where=Place(file=file, line=line), call=call, per_step=times / count)
        for (file, line, call), times in found.sites.most_common()
    )
    return SyncSites(sites=sites, seconds_per_step=found.seconds / count)


class Found:
    """Reads by place and call, and the seconds that they took."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.sites: Counter[Key] = Counter()
        self.seconds = 0.0
        self.inside = False

    def call(self, how: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Do the call; note it and its time when a line of the user's made it."""
        place = None if self.inside else _users_line()
        if place is None:
            return func(*args, **kwargs)
        self.inside = True
        before = self.clock()
        try:
            return func(*args, **kwargs)
        finally:
            self.inside = False
            self.seconds += between(before, self.clock()).own
            self.sites[(*place, how)] += 1


class ByCall(TorchFunctionMode):
    """Hears every call of torch from Python: `.tolist()` of a host tensor reaches no operator at all."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        how = CALLS.get(getattr(func, "__name__", ""))
        if how is None:
            return func(*args, **(kwargs or {}))
        return self.found.call(how, func, args, kwargs or {})


class ByOperator(TorchDispatchMode):
    """Hears every operator: what reads a value without saying so."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        how = OPERATORS.get(func._overloadpacket) or _masked(func, args)
        if how is None:
            return func(*args, **(kwargs or {}))
        return self.found.call(how, func, args, kwargs or {})


def _masked(func: Any, args: Any) -> str | None:
    """Picking by a boolean mask has to count the mask before the result has a shape."""
    if func._overloadpacket is not torch.ops.aten.index:
        return None
    masks = [one for one in args[1] if one is not None and one.dtype in (torch.bool, torch.uint8)]
    return "tensor[mask]" if masks else None


def _users_line() -> tuple[str, int] | None:
    """The innermost line outside of torch, Python and this tool, below the step; None when there is none."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if frame.f_code is train_on.__code__ or frame.f_code is _logged.__code__:
            return None  # beyond here is the tool that steps, not the program that is stepped
        if not _inside(name):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


def _inside(name: str) -> bool:
    if name.startswith(_GARAGE):
        return False  # the built-in workloads stand for a user's code
    return name.startswith((_TORCH, _OURS, "<"))


def _logged(subject: Subject, loss: torch.Tensor, found: Found) -> None:
    """The log of a step. The loss is read on its behalf, so that read is put down to the log's first line."""
    if subject.log is None:
        return
    code: CodeType | None = getattr(subject.log, "__code__", None)
    before = found.clock()
    value = float(loss)
    found.seconds += between(before, found.clock()).own
    if code is not None:
        found.sites[code.co_filename, code.co_firstlineno, "float(loss) for the log"] += 1
    subject.log(subject.model, value)
