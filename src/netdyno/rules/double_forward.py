"""The model is called twice on the same batch, and one of the two results is used for numbers only.

Looks for:  calls of a model on the very tensor that it had just had, with the same weights, whose results no backward
            pass reaches, in nearly every update that was looked at.
Matters:    the second call costs what the first did, and gives nothing that the first had not.
Try:        compute the metric from the output that is there: `outputs.detach()`.
Not this:   two calls that are both differentiated (consistency between dropout masks, siamese pairs), another model or a
            teacher, evaluation between updates, closures of an optimizer that searches along a line.
"""

import os

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import EvaluationUse, Place, StepTimeline
from netdyno.records.growth import Waste
from netdyno.records.measured import Split
from netdyno.rules._base import rule

LOOKS, NEARLY = 8, 0.8
WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for


@rule(suggests=())
def double_forward(waste: Waste, timeline: StepTimeline, use: EvaluationUse | None) -> Finding | None:
    if waste.again_looked < LOOKS or waste.again_updates < NEARLY * waste.again_looked:
        return None
    times = waste.again / max(1, waste.again_updates)
    graph = waste.again_graph >= waste.again / 2
    share = timeline.share("forward") * times / (times + 1) if graph else _evaluating(timeline, use)
    if share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"the model is called {times + 1:.2g} times on the same batch in {waste.again_updates} of {waste.again_looked} updates"
        f" looked at, and no backward pass uses the result of the second call{_at(waste.again_where)}",
        layer="compute",
        saves=Saving(low=share / 2, high=share),
        because={
            "again": float(waste.again),
            "updates": float(waste.again_updates),
            "looks": float(waste.again_looked),
        },
        fix="use the output of the first call for the metric too",
        where=waste.again_where,
        # Without a graph, and with dropout at work, it may be a target of its own making.
        confidence=0.85 if graph or not waste.again_random else 0.5,
        explains=("validation-with-gradients", "costly-evaluation", "costly-line"),
    )


def _evaluating(timeline: StepTimeline, use: EvaluationUse | None) -> float:
    if use is not None and use.span_s:
        return use.seconds / use.span_s
    return timeline.share("evaluation")


def _at(place: Place | None) -> str:
    return f" ({os.path.basename(place.file or '?')}:{place.line})" if place is not None else ""


def _case(again: int, updates: int, looked: int = 30, graph: int = 30) -> tuple[Waste, StepTimeline]:
    step = Split(running=0.01)
    waste = Waste(
        updates=100,
        cores=2,
        threads=1,
        again=again,
        again_updates=updates,
        again_looked=looked,
        again_graph=graph,
        again_where=Place(file="train.py", line=51),
    )
    return waste, StepTimeline(steps=100, step=step, phases={"forward": step})


SICK = (_case(30, 30),)
WELL = (_case(0, 0), _case(3, 3), _case(2, 2, looked=2))
