"""The graph of past updates is kept, or is still connected with the present loss.

Looks for:  a graph under the loss that reaches into earlier updates and has more of their nodes each time; or graphs of
            losses that were marked and are nearly all alive twenty updates later and more.
Matters:    memory grows until there is none left, and where backward passes walk through the past, each update takes
            longer than the one before it.
Try:        `.detach()` a state that is carried from batch to batch, `.item()` a loss that is added up or listed.
Not this:   several losses of one update that share a graph, a penultimate state that truncated back-propagation keeps
            for a fixed number of updates, longer sequences later in a curriculum, one best loss that is kept.
"""

import os
from itertools import pairwise

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.growth import GraphSize, Growth
from netdyno.rules._base import rule
from netdyno.rules._growth import Rise, steady
from netdyno.rules._remedies import remedy

# More old nodes at so many looks in a row: a window that slides has as many each time.
RISES = 4
# Truncated back-propagation goes a few batches back, and then lets go.
DOUBLED = 4
# Marks that are old enough, and the share of them that lives: a list of the best ones keeps few.
MARKED, KEPT = 8, 0.9
# Whoever looks from aboard keeps some MiB too; what is told as the script's own is much more.
SHOWS = 32 << 20


@rule(suggests=(), stage="use")
def growing_graph(growth: Growth) -> Finding | None:
    reaching = _reaching(growth)
    if reaching is None and not _kept(growth):
        return None
    rise = steady(growth.resident)
    says = _carried(growth, *reaching) if reaching is not None else _held(growth)
    return Finding(
        says=says + _memory(rise),
        layer="memory",
        saves=Saving(low=0.0, high=0.0),  # what it costs grows with the length of the run
        because={
            "nodes_first": float(growth.graphs[0].nodes) if growth.graphs else 0.0,
            "nodes_last": float(growth.graphs[-1].nodes) if growth.graphs else 0.0,
            "nodes_of_earlier_updates": float(growth.graphs[-1].old) if growth.graphs else 0.0,
            "marked": float(growth.marked),
            "kept": float(growth.kept),
            "bytes_per_update": rise.per_update if rise is not None else 0.0,
        },
        fix="detach the state that goes from one batch to the next: `state = state.detach()`"
        if reaching is not None
        else f"keep the number, not the tensor: `{_keeper(growth)}` gets `loss.item()` or `loss.detach()`",
        where=(growth.carried or growth.keeper_where) if reaching is not None else growth.keeper_where,
        confidence=0.95 if reaching is not None or rise is not None else 0.8,
        explains=("memory-leak", "retained-graph", "memory-growth"),
        remedies=remedy("detach-inputs" if reaching is not None else "detach-loss"),
    )


def _reaching(growth: Growth) -> tuple[GraphSize, GraphSize] | None:
    """The first and the last look of the longest time in which graphs held more of the past each time."""
    runs: list[list[GraphSize]] = [[]]
    for graph in growth.graphs:
        if runs[-1] and graph.old < runs[-1][-1].old and not graph.capped:
            runs.append([])  # it was detached, as between epochs
        runs[-1].append(graph)
    longest = max(runs, key=len)
    whole = [graph for graph in longest if not graph.capped]
    capped = len(longest) - len(whole)
    rises = sum(later.old > sooner.old for sooner, later in pairwise(whole))
    if len(whole) < 2 or rises < 1 or rises + capped < RISES:
        return None
    # A window that slides is full after some updates; a graph that grows has doubled and doubled again.
    last = longest[len(whole)] if capped else whole[-1]
    late = whole[len(whole) // 2 :]
    stopped = not capped and len(late) >= 3 and late[-2].old == late[-1].old
    if stopped or last.old < last.nodes / 2 or last.nodes < DOUBLED * whole[0].nodes:
        return None
    return whole[0], last


def _kept(growth: Growth) -> bool:
    return growth.marked >= MARKED and growth.kept >= KEPT * growth.marked


def _carried(growth: Growth, first: GraphSize, last: GraphSize) -> str:
    more = "at least " if last.capped else ""
    held = f" through `{growth.keeper}`" if growth.keeper and growth.carried is None else ""
    return (
        f"each backward pass reaches into all earlier updates{held}: the graph under the loss grew from {first.nodes} nodes in update"
        f" {first.update + 1} to {more}{last.nodes} in update {last.update + 1}, as a state is carried on and never detached"
    )


def _held(growth: Growth) -> str:
    return f"the graphs of past losses are never freed: {growth.kept} of {growth.marked} are still held{_by(growth)} after 20 updates and more"


def _by(growth: Growth) -> str:
    if not growth.keeper:
        return ""
    place = growth.keeper_where
    at = f" ({os.path.basename(place.file or '?')}:{place.line})" if place is not None and place.line else ""
    return f" by `{growth.keeper}`{at}"


def _keeper(growth: Growth) -> str:
    return growth.keeper or "what collects losses"


def _memory(rise: Rise | None) -> str:
    if rise is None or rise.total < SHOWS:
        return ""
    return f"; memory grows by {rise.per_update / 1024:.0f} KiB an update"


def _growth(**fields: object) -> Growth:
    flat = tuple((at, 300_000_000) for at in range(0, 400, 8))
    known: dict[str, object] = {"updates": 400, "cycle": 1, "resident": flat}
    return Growth(**(known | fields))  # type: ignore[arg-type]


def _graphs(*sizes: tuple[int, int]) -> tuple[GraphSize, ...]:
    return tuple(
        GraphSize(update=at * 3, nodes=nodes, old=old, capped=nodes == 5400) for at, (nodes, old) in enumerate(sizes)
    )


# A hidden state that is never detached; the same in a graph too large to walk through; losses in a list.
SICK = (
    (_growth(graphs=_graphs(*((60 * n, 60 * (n - 1)) for n in range(1, 12)))),),
    (_growth(graphs=_graphs((900, 0), (1800, 900), (2700, 1800), (4500, 3600), *((5400, 4000),) * 4)),),
    (_growth(marked=30, kept=30, keeper="losses"),),
)
# A graph that stays; one shared by two losses or by a generator and its critic; truncated back-propagation over five
# batches; sequences that grow longer; a constant part made before the first update; the best loss; an epoch's list, emptied.
WELL = (
    (_growth(graphs=_graphs(*((60, 0),) * 12), marked=30, kept=0),),
    (_growth(graphs=_graphs(*((60, 20),) * 12), marked=30, kept=0),),
    (_growth(graphs=_graphs(*((60 * n, 60 * (n - 1)) for n in (1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5)))),),
    (_growth(graphs=_graphs(*((60 * n, 0) for n in range(1, 12)))),),
    (_growth(graphs=_graphs((60, 0), *((80, 40),) * 11)),),
    (_growth(marked=30, kept=1),),
    (_growth(marked=30, kept=12),),
)
