"""What a staged search for a better model found: the document of `netdyno learn`."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun
from netdyno.records.measured import Interval
from netdyno.records.trial import Change

# One class of knob is moved in each, the others are frozen (ledger A-162). "deploy" tags what is tried after training.
Stage = Literal["data", "arch", "optim", "reg", "deploy"]

# History:
# 1  the first form
STUDY_VERSION = 1


class Run(Noun, frozen=True, kw_only=True):
    """One training run: a recipe under a seed. `score` is the validation metric, higher is better; `loss` the validation loss.

    `course` are (update, validation loss, validation score) as the run went on. A run that diverged or crashed says so in
    `failed`, and has no score. `stage` and `knob` are its tags: no run is without.
    """

    stage: Stage
    knob: str
    recipe: tuple[Change, ...]
    seed: int
    updates: int
    batch_size: int
    score: float | None = None
    loss: float | None = None
    train_loss: float | None = None
    classes: tuple[float, ...] = ()  # recall of each class
    course: tuple[tuple[int, float, float], ...] = ()
    seconds: float = 0.0
    peak_bytes: int = 0
    state_bytes: int = 0  # of the optimizer
    failed: str | None = None


class Curve(Noun, frozen=True, kw_only=True):
    """Something drawn beside a sweep: `x` against one line per name, on a log axis where `log_x`. `marks` are places on `x`."""

    name: str
    x_name: str
    y_name: str
    x: tuple[float, ...]
    lines: dict[str, tuple[float, ...]]
    marks: dict[str, float] = msgspec.field(default_factory=dict)
    log_x: bool = False


class Option(Noun, frozen=True, kw_only=True):
    """One setting of a knob, tried on every seed. `effect` is its score less the score of what stood before, paired by seed.

    `change` None is what stood before: the control.
    """

    change: Change | None
    says: str
    scores: tuple[float, ...] = ()
    mean: float | None = None
    effect: Interval | None = None
    seconds: float = 0.0
    failed: str | None = None
    refused: str | None = None


class Sweep(Noun, frozen=True, kw_only=True):
    """One knob, answered by its own experiment.

    `reason` is what the knob does to the system (ledger A-006). `verdict` "kept" means that `chosen`, an index of `options`,
    is better than the control beyond the noise between seeds; "not distinguishable" that nothing is; `among` are the indices
    of the options that cannot be told from the chosen one: an interval of settings and not a point.
    """

    knob: str
    stage: Stage
    asks: str
    reason: str
    options: tuple[Option, ...]
    seeds: tuple[int, ...]
    verdict: Literal["kept", "not distinguishable", "no better", "refused", "failed", "not run"]
    chosen: int | None = None
    among: tuple[int, ...] = ()
    says: str = ""
    curves: tuple[Curve, ...] = ()
    updates: int = 0
    seconds: float = 0.0
    effort_min: float = 1.0


class Limits(Noun, frozen=True, kw_only=True):
    """What a person cannot exceed: seconds of a training run, bytes of memory, seconds of one answer."""

    seconds: float | None = None
    bytes: int | None = None
    latency_s: float | None = None


class Tier(Noun, frozen=True, kw_only=True):
    """One tier of the objective (ledger A-005): "feasible", "best under the limits", "worth it". A failed one blocks the next."""

    name: str
    ok: bool | None
    says: str


class Cell(Noun, frozen=True, kw_only=True):
    """One number of the ladder, with its difference to the rung above. `told` is False inside the noise."""

    value: Interval | None
    delta: Interval | None = None
    told: bool = False


class Rung(Noun, frozen=True, kw_only=True):
    """One rung of the ladder (ledger A-036): the recipe so far, and score, seconds, memory and latency of it over seeds."""

    name: str
    recipe: tuple[Change, ...]
    seeds: int
    cells: dict[str, Cell]


class Candidate(Noun, frozen=True, kw_only=True):
    """One recipe seen from all sides; on the Pareto front when no other is at least as good in all and better in one."""

    recipe: tuple[Change, ...]
    score: float
    seconds: float
    bytes: int
    latency_s: float
    feasible: bool
    on_front: bool
    value: float | None = None


class StudyPlan(Noun, frozen=True, kw_only=True):
    """What a search was asked to do. `shares` of the budget belong to the stages data, arch, optim and reg."""

    budget_s: float = 1800.0
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    seed: int = 0
    level: float = 0.95
    least_gain: float = 0.0
    updates: int | None = None
    shares: dict[str, float] = msgspec.field(
        default_factory=lambda: {"data": 0.30, "arch": 0.25, "optim": 0.25, "reg": 0.20}
    )
    limits: Limits = Limits()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    costs: tuple[tuple[float, ...], ...] = ()  # of answering column when row is true: the business side
    review: float | None = None  # what a person's look at one answer costs


class Study(Noun, frozen=True, kw_only=True):
    """All that is known of one search. Steps replace it; every run is saved before the next begins."""

    schema_version: int = STUDY_VERSION
    id: str
    made_by: str
    made_at: str
    command: str
    target: str
    source_hash: str = ""
    plan: StudyPlan
    runs: tuple[Run, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    recipe: tuple[Change, ...] = ()
    tiers: tuple[Tier, ...] = ()
    ladder: tuple[Rung, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    noise: str = ""
    advice: tuple[str, ...] = ()
    spent: dict[str, float] = msgspec.field(default_factory=dict)
    done: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    finished: bool = False
    wall_s: float = 0.0
