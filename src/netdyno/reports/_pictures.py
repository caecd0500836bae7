"""What the charts show, as plain data: step timeline, memory, roofline, the pairs of a trial."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from netdyno.records.evidence import GAP, AnyEvidence, Layer, LayerTable, MemoryAccount, StepTimeline
from netdyno.records.measured import Split
from netdyno.records.record import Record
from netdyno.reports._info import place
from netdyno.reports._units import one_line

Kind = TypeVar("Kind", bound=AnyEvidence)

# The order in which a step does things; phases that are not named here come last, and gaps after all others.
PHASES = (
    "data", "collate", "copy", "zero_grad", "forward", "loss", "backward", "recompute", "clip", "optimizer", "scheduler",
    "sync", "log", "save", "evaluation", "netdyno", "rest",
)  # fmt: skip

# The middle of all pairs fills the picture; single outliers are drawn at its edge instead of squashing the rest.
OUTLIERS = 0.03


class PhaseRow(NamedTuple):
    """One phase of a step, before and after the kept changes, in seconds per step."""

    name: str
    before: Split
    after: Split | None


class TimelineInfo(NamedTuple):
    """Where the time of a step goes. `widest` is the longest bar, in seconds."""

    rows: tuple[PhaseRow, ...]
    before: Split
    after: Split | None
    widest: float
    explained: float
    overhead_s: float


def timeline(record: Record) -> TimelineInfo | None:
    """The step timeline of the baseline, beside that of the recipe where it was gathered."""
    before = _last(record.evidence, StepTimeline)
    after = _last(record.after, StepTimeline)
    if before is None:
        return None
    names = sorted({*before.phases, *(after.phases if after else ())}, key=_phase_order)
    rows = tuple(
        PhaseRow(one_line(name), before.phases.get(name, Split()), after.phases.get(name, Split()) if after else None)
        for name in names
    )
    return TimelineInfo(
        rows,
        before.step,
        after.step if after else None,
        max((max(row.before.wall, row.after.wall if row.after else 0.0) for row in rows), default=0.0),
        before.explained,
        before.own_overhead_s,
    )


def _phase_order(name: str) -> tuple[int, str]:
    if name.startswith(GAP):
        return (len(PHASES) + 1, name)
    return (PHASES.index(name) if name in PHASES else len(PHASES), name)


class MemoryRow(NamedTuple):
    """One part of the memory of a step, in bytes and as a share of all parts."""

    name: str
    bytes: int
    part: float


class MemoryInfo(NamedTuple):
    """Where the memory goes. `parts` is the sum of the rows, `peak` what a step held at most."""

    rows: tuple[MemoryRow, ...]
    parts: int
    peak: int
    capacity: int
    available: int


def memory(record: Record) -> MemoryInfo | None:
    """The memory account of the baseline, the largest part first."""
    account = _last(record.evidence, MemoryAccount)
    if account is None:
        return None
    named = {
        "parameters": account.parameters,
        "buffers": account.buffers,
        "gradients": account.gradients,
        "optimizer state": account.optimizer_state,
        "activations": account.activations,
        "workspace": account.workspace,
        "batch": account.batch,
    }
    whole = sum(named.values())
    rows = (MemoryRow(name, count, count / whole if whole else 0.0) for name, count in named.items())
    ordered = tuple(sorted(rows, key=lambda row: -row.bytes))
    return MemoryInfo(ordered, whole, account.peak, account.capacity, account.available)


class Dot(NamedTuple):
    """One layer on the roofline: FLOP per byte across, FLOP per second up."""

    module: str
    kind: str
    intensity: float
    rate: float
    seconds: float
    of_ceiling: float | None
    place: str


class RooflineInfo(NamedTuple):
    """Layers against what the machine can do. `silent` layers do no arithmetic and have no place here."""

    dots: tuple[Dot, ...]
    silent: int
    matmul: dict[str, float]
    bandwidth: float | None
    dtype: str
    step_intensity: float


def roofline(record: Record) -> RooflineInfo | None:
    """The layer table as dots, the slowest layer first, under the measured ceilings where there are any."""
    table = _last(record.evidence, LayerTable)
    if table is None or not table.layers:
        return None
    drawn = [layer for layer in table.layers if layer.flops > 0 and layer.bytes > 0 and layer.seconds > 0]
    ceilings = record.ceilings
    return RooflineInfo(
        tuple(_dot(layer) for layer in sorted(drawn, key=lambda layer: -layer.seconds)),
        len(table.layers) - len(drawn),
        {one_line(dtype): flops for dtype, flops in ceilings.matmul.items()} if ceilings else {},
        ceilings.bandwidth if ceilings and ceilings.bandwidth > 0 else None,
        one_line(table.dtype),
        table.intensity,
    )


def _dot(layer: Layer) -> Dot:
    return Dot(
        one_line(layer.module),
        one_line(layer.kind),
        layer.flops / layer.bytes,
        layer.flops / layer.seconds,
        layer.seconds,
        layer.share_of_ceiling,
        place(layer.where),
    )


class PairsInfo(NamedTuple):
    """The pairs of a trial as a picture: saved share per pair, the span that is drawn, and who is beyond it."""

    saved: tuple[float, ...]
    low: float
    high: float
    beyond: int
    respawns: tuple[int, ...]


def pairs(saved: tuple[float, ...], spawns: tuple[int, ...], *, also: Iterable[float] = ()) -> PairsInfo | None:
    """A picture that holds nearly all pairs and everything in `also`; None when there are fewer than two."""
    if len(saved) < 2:
        return None
    ordered = sorted(saved)
    cut = int(OUTLIERS * len(ordered))
    kept = [*ordered[cut : len(ordered) - cut], *also]
    low, high = min(kept), max(kept)
    margin = max(0.08 * (high - low), 0.002)
    low, high = low - margin, high + margin
    beyond = sum(not low <= value <= high for value in saved)
    respawns = tuple(at for at in range(1, min(len(spawns), len(saved))) if spawns[at] != spawns[at - 1])
    return PairsInfo(saved, low, high, beyond, respawns)


def _last(evidence: Iterable[AnyEvidence], kind: type[Kind]) -> Kind | None:
    found = [item for item in evidence if isinstance(item, kind)]
    return found[-1] if found else None
