"""Validation records a graph that nobody walks back.

Looks for:  forward passes with gradients on, several in a row, whose result no backward pass used.
Matters:    activations of every such batch are kept until its output is forgotten: memory, and the time to record.
Try:        `with torch.no_grad():` around validation, or `torch.inference_mode()`.
Not this:   a single pass whose result is detached (a generator, a teacher), or passes that wait for a later loss.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import EvaluationUse, Place
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

AGAIN = 3  # one or two passes are a look at shapes or at the first prediction; validation comes in rounds


@rule(suggests=())
def validation_with_gradients(use: EvaluationUse) -> Finding | None:
    if use.with_gradients < AGAIN:
        return None
    return Finding(
        says=f"{use.with_gradients} passes, several in a row, recorded a graph that no backward pass used",
        layer="memory",
        # What it costs is memory. The time of recording is a small part of a pass, and was not measured apart.
        saves=Saving(low=0.0, high=0.0),
        because={
            "passes_with_gradients": float(use.with_gradients),
            "passes_without": float(use.forwards),
            "seconds": use.gradient_s,
        },
        fix="put them into `with torch.no_grad():`",
        where=use.where,
        remedies=remedy("no-gradients-in-evaluation"),
    )


def _use(*, with_gradients: int, forwards: int = 0) -> EvaluationUse:
    return EvaluationUse(
        updates=40,
        forwards=forwards,
        own_forwards=forwards,
        rounds=2 if forwards else 0,
        seconds=0.1,
        training_s=4.0,
        span_s=5.0,
        with_gradients=with_gradients,
        gradient_s=0.01 * with_gradients,
        where=Place(file="train.py", line=51),
    )


SICK = ((_use(with_gradients=40),),)
# Validation without gradients. A distributed wrapper's flag says "evaluation" while its module trains: all its passes
# are used, so none is counted. One look at the shapes of the output.
WELL = ((_use(with_gradients=0, forwards=40),), (_use(with_gradients=0),), (_use(with_gradients=1),))
