"""What the rules conclude from evidence."""

from typing import Literal

from netdyno.records.base import Noun
from netdyno.records.evidence import Place

Layer = Literal[
    "data", "compute", "memory", "optimisation", "generalisation", "inference", "deployment", "reproducibility"
]
LAYERS: tuple[Layer, ...] = (
    "data", "compute", "memory", "optimisation", "generalisation", "inference", "deployment", "reproducibility",
)  # fmt: skip


Stage = Literal[
    "failure", "data", "structure", "loss", "order", "settings", "use", "dynamics", "outcome", "speed", "note"
]
# What can make what else go wrong, first causes first. What is slow is never a cause of what is wrong.
STAGES: tuple[Stage, ...] = (
    "failure", "data", "structure", "loss", "order", "settings", "use", "dynamics", "outcome", "speed", "note",
)  # fmt: skip


class Saving(Noun, frozen=True, kw_only=True):
    """What could be won at best, as shares of a step between 0 and 1."""

    low: float
    high: float


class Finding(Noun, frozen=True, kw_only=True):
    """One thing that holds the model back. `because` holds the measured values behind the sentence.

    `stage` says where in the chain of causes it stands; what only costs time or memory has the stage "speed".
    """

    id: str = ""
    says: str
    layer: Layer
    saves: Saving
    because: dict[str, float]
    fix: str
    where: Place | None = None
    confidence: float = 1.0
    explains: tuple[str, ...] = ()
    suggests: tuple[str, ...] = ()
    stage: Stage = "speed"


class Outcome(Noun, frozen=True, kw_only=True):
    """What became of one rule: silence is recorded too."""

    rule: str
    state: Literal["found", "suspected", "clear", "skipped", "failed"]
    finding: Finding | None = None
    reason: str | None = None
