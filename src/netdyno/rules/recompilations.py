"""The compiler takes on the same function again and again.

Looks for:  a compiled function that was compiled seven times or more while compiling takes a tenth of the time, or one
            that reached the limit and is run uncompiled from then on.
Matters:    each compilation takes as long as many updates; after the limit nothing is compiled, and all of it was for nothing.
Try:        keep what changes out of the compiled module or in a tensor; pad shapes, or `mark_dynamic` the axis that varies.
Not this:   one compilation for training and one for evaluation, a second one for the last, smaller batch.
"""

import re

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, ScriptTrace
from netdyno.records.growth import Recompiled, Waste
from netdyno.rules._base import rule

# Training and evaluation, each with a full and with a last batch, and sizes taken as fixed before they are taken as varying: up to six.
TIMES = 7
WORTH_A_WORD = 0.10


@rule(suggests=())
def recompilations(waste: Waste, trace: ScriptTrace) -> Finding | None:
    worst = max(waste.recompiled, key=lambda one: one.times, default=None)
    if worst is None or worst.times < TIMES or not trace.span_s:
        return None
    # The first compilation is what the script asked for.
    high = min(1.0, worst.seconds * (worst.times - 1) / worst.times / trace.span_s)
    limit = 0 < waste.recompile_limit <= worst.times
    if high < WORTH_A_WORD and not limit:
        return None
    return Finding(
        says=f"`{worst.function}` was compiled {worst.times} times, in {worst.seconds:.2g} s"
        + (f", until the limit of {waste.recompile_limit} was reached and it ran uncompiled" if limit else "")
        + _guard(worst),
        layer="compute",
        saves=Saving(low=high / 2, high=high),
        because={"times": float(worst.times), "compile_s": worst.seconds, "span_s": trace.span_s},
        fix="keep numbers that change in every call out of the compiled module, or in a tensor; mark sizes that vary as dynamic",
        where=_where(worst),
        confidence=0.95,
        explains=("costly-line", "python-bound", "compute-bound"),
    )


def _where(worst: Recompiled) -> Place | None:
    """The line that the guard stands for, where the compiler names it; the function's otherwise."""
    line = re.search(rf":(\d+) in {re.escape(worst.function)}\b", worst.reason)
    if line is None or worst.where is None:
        return worst.where
    return Place(file=worst.where.file, line=int(line[1]))


def _guard(worst: Recompiled) -> str:
    if not worst.reason:
        return ""
    guard = worst.reason.strip().splitlines()[0].split("#")[0].partition(": ")[2].strip()
    return f"; the guard that failed last: `{guard}`" if guard else ""


def _case(times: int, seconds: float, span: float = 20.0, limit: int = 8) -> tuple[Waste, ScriptTrace]:
    one = Recompiled(
        function="forward",
        where=Place(file="train.py", line=19),
        times=times,
        seconds=seconds,
        reason="0/7: self.seen == 8    # self.seen += 1\nUser stack trace:\n  ...",
    )
    trace = ScriptTrace(
        attached="",
        processes=1,
        updates=60,
        counted_by="optimizer",
        cycle=1,
        events=(),
        optimizers=(),
        span_s=span,
        own_s=0.0,
        unattributed=0.0,
    )
    return Waste(updates=60, cores=2, threads=1, recompiled=(one,), recompile_limit=limit), trace


SICK = (_case(8, 10.0), _case(7, 5.0, limit=64))
# Training and evaluation, each with a smaller last batch, also in both ways of taking sizes; several in a long run; nothing compiled.
WELL = (
    _case(4, 8.0),
    _case(6, 5.0),
    _case(7, 2.0, span=600.0, limit=64),
    (Waste(updates=60, cores=2, threads=1), _case(1, 0.0)[1]),
)
