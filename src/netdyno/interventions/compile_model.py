"""Compile the model: operators are fused into fewer, and Python is left out of the step.

Helps:      models that spend their time in element-wise operators, normalisation and Python. Seen on 2 cores: 1.38x for
            a small ResNet, 0.94x for a transformer of matrix products, 1.08x on top of bfloat16 and channels-last.
Costs:      seconds to minutes before the first step, again for each new shape and for evaluation; a compiler on the
            machine; errors that are harder to read. The trial sets these seconds against the steps of a whole run.
Parity:     fused sums run in another order. Random numbers are drawn as without compilation (`fallback_random`).
Undo:       the model itself is never touched; compiled code is dropped when the last compiled side of the process ends.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch

from netdyno.interventions._base import Facts, Intervention
from netdyno.interventions._products import compute_of
from netdyno.measure.step import forward_loss, turning
from netdyno.measure.stopwatch import Clock, between, thread_clock
from netdyno.measure.untouched import untouched
from netdyno.records.evidence import GraphBreaks, LayerTable, OpTable
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Batch, Subject

# Of what is neither product nor convolution, fusion saves the trips to memory in between and the calls: 1.38x was
# seen for a ResNet in which about half was neither.
OF_THE_REST = 0.6
UNKNOWN = 0.25  # of the compute phases, where nobody counted operators
LEAST = 0.03
# PyTorch takes either a mode or options, so a mode is written out as the options that it stands for.
MODES: dict[str, dict[str, Any]] = {"default": {}, "reduce-overhead": {"triton.cudagraphs": True}}
MARK = "_is_torch_compile"  # torch.compile writes this through its wrapper onto the model


@dataclass(frozen=True, slots=True)
class CompileModel:
    mode: str = "default"
    dynamic: bool | None = None

    layers: ClassVar[tuple[str, ...]] = ("compute", "memory")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 40
    effort: ClassVar[float] = 15.0
    memory_only: ClassVar[bool] = False
    seconds_to_try: ClassVar[float] = 60.0  # 11 to 30 s of computing on a quiet machine, minutes on a busy one

    def refuses(self, subject: Subject) -> str | None:
        if "_orig_mod" in subject.model._modules:
            return "the model is compiled already"
        if self.mode not in MODES:
            return f"`{self.mode}` is not among the modes that are tried: {', '.join(MODES)}"
        device = subject.device.type
        if device == "cpu":
            return _no_compiler()
        if device == "cuda":
            return None if importlib.util.find_spec("triton") else "compiling for a GPU needs the package `triton`"
        return f"it is tried on a CPU and on CUDA only, and the model is on `{device}`"

    def predicts(self, facts: Facts) -> Prediction | None:
        compute = compute_of(facts)
        if compute is None:
            return None
        if OpTable not in facts and LayerTable not in facts:
            return Prediction(
                low=0.0,
                high=UNKNOWN * compute.whole,
                why=f"forward and backward take {compute.whole:.0%} of a step; no operator was counted",
            )
        high = OF_THE_REST * compute.rest
        if high < LEAST:
            return None
        return Prediction(
            low=0.0,
            high=high,
            why=f"{compute.rest:.0%} of a step is neither product nor convolution, which fusion can shorten",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        # One setting: racing two would compile twice. On a GPU, graphs also take the launches out of the step.
        return (replace(self, mode="reduce-overhead") if subject.device.type == "cuda" else self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        with _compiling(subject.callee):
            compiled = torch.compile(subject.callee, dynamic=self.dynamic, options=_options(self.mode))
            yield replace(subject, called=compiled)

    def code(self) -> str:
        options = "{" + ", ".join(f'"{key}": {value!r}' for key, value in _options(self.mode).items()) + "}"
        dynamic = f"dynamic={self.dynamic}, " if self.dynamic is not None else ""
        return f"model = torch.compile(model, {dynamic}options={options})"


def graph_breaks(
    subject: Subject, batch: Batch, *, backend: str = "inductor", clock: Clock | None = None
) -> GraphBreaks:
    """What cannot be traced of the model as it runs on a placed batch, and what compiling costs in seconds.

    The subject is afterwards as before. Compiling can take minutes: call it under a time-out, or with
    `backend="eager"`, which traces only, and then only the tracing is in `compile_s`.
    """
    from torch._dynamo.backends.debugging import ExplainWithBackend

    clock = clock or thread_clock()
    listed: Any = ExplainWithBackend(backend)
    began = clock()
    with untouched(subject), _compiling(subject.callee):
        compiled = torch.compile(subject.callee, backend=listed)
        first, second = (_seconds(replace(subject, called=compiled), batch, clock) for _ in range(2))
    return GraphBreaks(
        graphs=len(listed.graphs),
        breaks=len(listed.break_reasons),
        reasons=tuple(dict.fromkeys(map(_told, listed.break_reasons))),
        compile_s=max(0.0, first - second),
        cost_s=between(began, clock()).wall,
    )


def _seconds(subject: Subject, batch: Batch, clock: Clock) -> float:
    began = clock()
    with turning(subject):
        forward_loss(subject, batch).backward()
    return between(began, clock()).wall


def _told(reason: Any) -> str:
    what = reason.reason.strip().splitlines()[0]
    if not reason.user_stack:
        return what
    frame = reason.user_stack[-1]
    return f"{what} ({frame.filename}:{frame.lineno})"


def _options(mode: str) -> dict[str, Any]:
    """`fallback_random` draws random numbers as PyTorch does without compilation, so that dropout masks agree."""
    return {**MODES[mode], "fallback_random": True}


_sides = 0  # compiled sides of this process


@contextmanager
def _compiling(plain: Callable[..., Any]) -> Iterator[None]:
    """Takes the mark off the model, and forgets all compiled code after the last side that has any.

    Forgetting earlier would make the others compile again.
    """
    global _sides  # noqa: PLW0603  the compiler's caches are the process's too
    _sides += 1
    marked = MARK in vars(plain)
    try:
        yield
    finally:
        _sides -= 1
        if not marked:
            vars(plain).pop(MARK, None)
        if not _sides and "torch._dynamo" in sys.modules:
            torch._dynamo.reset()


def _no_compiler() -> str | None:
    wanted = os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    if shutil.which(wanted.split()[0]) is None:
        return f"compiling for a CPU needs a C++ compiler, and there is no `{wanted}` (install it, or set CXX)"
    headers = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not headers.exists():
        return f"compiling for a CPU needs Python's headers, and there is no `{headers}`"
    return None


EXAMPLES = (CompileModel(), CompileModel(dynamic=True))
