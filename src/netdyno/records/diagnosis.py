"""What the rules conclude from evidence."""

from typing import Literal

from netdyno.records.base import Noun, Place
from netdyno.records.measured import Interval
from netdyno.records.trial import Change

Layer = Literal[
    "data", "compute", "memory", "optimisation", "generalisation", "inference", "deployment", "reproducibility"
]
LAYERS: tuple[Layer, ...] = (
    "data", "compute", "memory", "optimisation", "generalisation", "inference", "deployment", "reproducibility",
)  # fmt: skip


Stage = Literal[
    "failure", "data", "structure", "loss", "order", "settings", "use", "dynamics", "outcome",
    "speed", "bound", "nature", "note",
]  # fmt: skip
# What can make what else go wrong, first causes first. What is slow is never a cause of what is wrong.
STAGES: tuple[Stage, ...] = (
    "failure", "data", "structure", "loss", "order", "settings", "use", "dynamics", "outcome",
    "speed", "bound", "nature", "note",
)  # fmt: skip


class Saving(Noun, frozen=True, kw_only=True):
    """What could be won at best, as shares of a step between 0 and 1."""

    low: float
    high: float


class Exhibit(Noun, frozen=True, kw_only=True):
    """One sample that a finding rests on: sample `index` of the split called `split`, and what is the matter with it.

    `shows` is the sample in words or numbers, cut to a line. `picture` is a small PNG in base64 where there is something to see.
    """

    split: str
    index: int
    says: str = ""
    shows: str = ""
    picture: str = ""


class Finding(Noun, frozen=True, kw_only=True):
    """One thing that holds the model back. `because` holds the measured values behind the sentence.

    `stage` says where in the chain of causes it stands; what only costs time or memory has the stage "speed". A "note" is a
    remark and nothing that is wrong. `remedies`
    do from outside what the fix would do, the likeliest first: an experiment runs the script with each and without.
    `exhibits` are the samples it is about, the clearest first.
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
    remedies: tuple[Change, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()


class Outcome(Noun, frozen=True, kw_only=True):
    """What became of one rule: silence is recorded too."""

    rule: str
    state: Literal["found", "suspected", "clear", "skipped", "failed"]
    finding: Finding | None = None
    reason: str | None = None


class Experiment(Noun, frozen=True, kw_only=True):
    """A counterfactual: the script as it is against the same script with one thing changed, once per seed.

    `quantity` is what was compared, `control` and `treatment` hold one value per seed. `effect` is what the change wins, in the unit of
    the quantity (for times and memory the share saved), with its interval over seeds; above 0 the change is better. `diff` is the
    edit that was run, where the change was made in the source. `verdict` is "proven" only if the interval lies above 0
    and no guarded quantity got worse by more than its noise.
    """

    finding: str
    change: Change
    asks: str
    quantity: str
    seeds: tuple[int, ...]
    control: tuple[float, ...] = ()
    treatment: tuple[float, ...] = ()
    effect: Interval | None = None
    verdict: Literal["proven", "refuted", "undecided", "failed"]
    says: str
    guards: tuple[str, ...] = ()
    diff: str = ""
    cost_s: float = 0.0
