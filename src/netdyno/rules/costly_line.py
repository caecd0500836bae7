"""A few lines beside the model's work take the time.

Looks for:  at most three lines of one function, in time between the watched calls, on which the sampler met the
            training thread in a tenth of all looks or more.
Matters:    what they do is neither data nor model, so that no change to either wins it back.
Try:        do it every hundredth update, on fewer values, on the device, or in another thread or process.
Not this:   values read back into Python (see `hidden-syncs`), logging through a logger that is known
            (see `logging-cost`), evaluation (see `costly-evaluation`).
"""

import os
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import GAP, LineCost, LineCosts, ParameterUse, Place, StepTimeline
from netdyno.records.measured import Interval, Split
from netdyno.rules._base import rule
from netdyno.stats.shares import counted_share

WORTH_A_WORD = 0.10  # below a tenth of the time, noise and cure cost about the same
SURELY = 0.05  # what the default least gain of a trial asks for; the whole interval has to lie above it
FEW = 3  # more than three lines are a part of the program, and no place to point at
# A line with less than a quarter of what the costliest one takes is not what a reader should look at.
BESIDE = 1 / 4
ERROR = 0.05
ENOUGH = 10  # looks that fell there: a few may meet any line, and short scripts have no more
TIMED = 0.3  # unless the gap in which they fell was timed, and is so large a part of a step that looks are not needed to tell
# A line that makes one of these calls is in a gap just before and after it: that is the price of the call.
WATCHED = ("data", "forward", "loss", "backward", "clip", "optimizer", "zero_grad", "scheduler")
# Between forward and backward lies the loss, written by hand or called. There only what no gradient can pass through is
# surely beside the model's work: Python's own library, and these.
LOSS_GAP = f"{GAP}forward"
NO_GRADIENTS = frozenset({"numpy", "scipy", "sklearn", "pandas", "PIL", "cv2", "matplotlib"}) | sys.stdlib_module_names


@rule(suggests=())
def costly_line(
    lines: LineCosts, parameters: ParameterUse | None, timeline: StepTimeline | None = None
) -> Finding | None:
    spots = spots_of(lines)
    if not spots:
        return None
    worst = spots[0]
    # The costliest of many spots is picked because it looks costly; the interval allows for all that it was picked from.
    unseen = _unseen_model(parameters)
    share = counted_share(worst.samples, lines.samples, level=1 - ERROR / len(spots))
    if worst.samples < ENOUGH:
        timed = timeline.share(*worst.phases) if timeline is not None and len(worst.phases) == 1 else 0.0
        if timed < TIMED:
            return None
        share = Interval(middle=timed, low=timed, high=timed, level=share.level)
    if share.middle < WORTH_A_WORD or share.low < SURELY:
        return None
    return Finding(
        says=f"{_named(worst)} {_take(worst)} {share.middle:.0%} of the time ({_range(share)}), {_beside_what(unseen)}",
        layer="compute",
        saves=Saving(low=0.0, high=share.middle),
        because={
            "share": share.middle,
            "share_low": share.low,
            "share_high": share.high,
            "samples": float(worst.samples),
            "looks": float(lines.samples),
        },
        fix="do it every hundredth update or on fewer values; what training cannot go on without (an environment, say) "
        "can often work in processes of its own",
        where=worst.where,
        confidence=0.5 if unseen else 1.0,
    )


class Spot(NamedTuple):
    """Up to three lines of one function, and how often the training thread was met on them."""

    where: Place
    function: str
    lines: tuple[int, ...]
    samples: int
    phases: tuple[str, ...] = ()


def spots_of(lines: LineCosts) -> list[Spot]:
    """Every function with samples in gaps, by its costliest lines; the costliest function first."""
    calls = {line.where for line in lines.lines if line.phase in WATCHED}
    beside = sorted((line for line in lines.lines if _beside(line) and line.where not in calls), key=_function)
    spots = [_spot(tuple(group)) for _, group in groupby(beside, key=_function)]
    return sorted(spots, key=lambda spot: -spot.samples)


def _spot(lines: Iterable[LineCost]) -> Spot:
    by_line: dict[int, list[LineCost]] = {}
    for line in lines:
        by_line.setdefault(line.where.line or 0, []).append(line)
    ranked = sorted(by_line.values(), key=_samples, reverse=True)
    picked = [one for one in ranked[:FEW] if _samples(one) >= BESIDE * _samples(ranked[0])]
    first = picked[0][0]
    total = sum(_samples(one) for one in picked)
    numbers = tuple(sorted(one[0].where.line or 0 for one in picked))
    phases = tuple(sorted({line.phase for one in picked for line in one}))
    return Spot(first.where, first.function, numbers, total, phases)


def _beside(line: LineCost) -> bool:
    if line.phase == LOSS_GAP:
        return line.framework.partition(".")[0] in NO_GRADIENTS
    return line.phase.startswith(GAP)


def _function(line: LineCost) -> tuple[str, str]:
    return line.where.file or "", line.function


def _samples(lines: Iterable[LineCost]) -> int:
    return sum(line.samples for line in lines)


def _unseen_model(parameters: ParameterUse | None) -> bool:
    """True when gradients arrive in modules that nobody was seen to call: gaps may then be the model's own work."""
    return parameters is not None and parameters.unseen


def _named(spot: Spot) -> str:
    name = os.path.basename(spot.where.file or "?")
    plural = "line" if len(spot.lines) == 1 else "lines"
    return f"{plural} {', '.join(map(str, spot.lines))} of {name} (`{spot.function}`)"


def _beside_what(unseen: bool) -> str:
    return "in no call of a module; it may be the model's own work" if unseen else "beside the model's work"


def _take(spot: Spot) -> str:
    return "takes" if len(spot.lines) == 1 else "take"


def _range(share: Interval) -> str:
    return f"{share.low:.0%} to {share.high:.0%}"


def _line(number: int, samples: int, *, phase: str, framework: str = "", function: str = "train_model") -> LineCost:
    where = Place(file="train.py", line=number)
    return LineCost(
        where=where, function=function, phase=phase, samples=samples, share=samples / 1000, framework=framework
    )


def _costs(*lines: LineCost, looks: int = 1000) -> LineCosts:
    return LineCosts(lines=lines, samples=looks, hz=50.0)


def _parameters(unseen: bool) -> ParameterUse:
    return ParameterUse(updates=20, parameters=10, unseen=unseen)


def _timed(gap: float) -> StepTimeline:
    work = Split(running=0.010)
    between = Split(running=gap)
    return StepTimeline(steps=50, step=work + between, phases={"forward": work, "after optimizer": between})


# Histograms of all weights and of all gradients; the stepping of an environment; a model that is called past its
# `__call__`, so that its gap may be its own work (a suspicion); few looks in a gap that was timed; metrics in numpy before
# the backward pass.
SICK = (
    (
        _costs(
            _line(120, 140, phase="after zero_grad", framework="numpy.histogram"), _line(122, 130, phase="after sync")
        ),
    ),
    (_costs(_line(61, 480, phase="after optimizer", function="main")),),
    (_costs(_line(61, 440, phase="after optimizer", framework="torch")), _parameters(unseen=True)),
    (_costs(_line(88, 2, phase="after optimizer"), looks=4), _timed(0.008)),
    (_costs(_line(70, 300, phase="after forward", framework="sklearn.metrics.f1_score")), _parameters(unseen=False)),
)
# A functional loss between forward and backward, and one by hand; the model itself; lines that take little; the call of a backward pass;
# too few looks to tell; a twelfth of the time spread over forty lines.
WELL = (
    (_costs(_line(40, 150, phase="after forward", framework="torch.nn.functional.cross_entropy")),),
    (_costs(_line(41, 150, phase="after forward")),),
    (_costs(_line(17, 600, phase="forward", framework="torch"), _line(9, 300, phase="data")),),
    (_costs(_line(120, 50, phase="after optimizer")),),
    (
        _costs(
            _line(19, 150, phase="after forward"), _line(19, 150, phase="after loss"), _line(19, 40, phase="backward")
        ),
    ),
    (_costs(_line(120, 3, phase="after optimizer"), looks=20),),
    (_costs(_line(53, 2, phase="after optimizer"), looks=3), _timed(0.0004)),
    (_costs(*(_line(100 + number, 3, phase="after optimizer") for number in range(40))),),
)
