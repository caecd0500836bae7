"""Every backward pass keeps its graph, and none uses it again.

Looks for:  `retain_graph=True` in nearly every backward pass of a script that makes one pass per update and differentiates
            nothing twice, and whose graphs hold nothing of earlier updates.
Matters:    what a layer saved for the backward pass stays until the next loss replaces it: the peak is an update higher.
Try:        leave `retain_graph` out; it is needed only before another pass through the same graph.
Not this:   two losses with a shared part in one update, gradients of gradients, a constant part made once before training.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place, ScriptTrace
from netdyno.records.growth import GraphSize, Growth, Waste
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

NEARLY = 0.95
PASSES = 8
# Passes per update: another one may be what the graph is kept for.
ONCE = 1.05


@rule(suggests=(), stage="use")
def retained_graph(waste: Waste, growth: Growth, trace: ScriptTrace | None) -> Finding | None:
    if waste.passes < PASSES or waste.retained < NEARLY * waste.passes or waste.passes > ONCE * waste.updates:
        return None
    if any(graph.old for graph in growth.graphs) or _differentiates(trace):
        return None
    return Finding(
        says=f"{waste.retained} of {waste.passes} backward passes keep their graph with `retain_graph=True`, and none is used again",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={"retained": float(waste.retained), "passes": float(waste.passes), "updates": float(waste.updates)},
        fix="leave out `retain_graph=True`",
        where=waste.retained_where,
        confidence=0.85,
        remedies=remedy("free-graphs"),
    )


def _differentiates(trace: ScriptTrace | None) -> bool:
    return trace is not None and any("grad" in event.replace("zero_grad", "").split() for event, _ in trace.events)


def _case(retained: int, passes: int, old: int = 0) -> tuple[Waste, Growth]:
    graphs = tuple(GraphSize(update=at, nodes=40, old=old) for at in range(6))
    where = Place(file="train.py", line=40)
    return (
        Waste(updates=100, cores=2, threads=1, retained=retained, passes=passes, retained_where=where),
        Growth(updates=100, cycle=1, resident=(), graphs=graphs),
    )


SICK = (_case(100, 100),)
# Two losses of one update; a part made once, before training; none; the first passes only.
WELL = (_case(100, 200), _case(100, 100, old=12), _case(0, 100), _case(4, 100))
