"""The document of one run."""

import msgspec

from netdyno.records.base import Noun
from netdyno.records.diagnosis import Experiment, Outcome
from netdyno.records.environment import Ceilings, Environment
from netdyno.records.evidence import AnyEvidence, Place
from netdyno.records.measured import Measurement, Split
from netdyno.records.trial import Attribution, Change, Numerics, Parity, Stability, Trial, Verdict

# History:
# 1  the first form
# 2  unmodified scripts: a target's command and folder, a patch, what was written, and kinds of evidence (ScriptTrace,
#    LineCosts, LoaderUse, EvaluationUse, ParameterUse, UpdateOrder, Chores; `named_gaps` of a StepTimeline)
# 3  looks at the numbers (many kinds of evidence), a finding's stage and remedies, experiments
SCHEMA_VERSION = 3


class Plan(Noun, frozen=True, kw_only=True):
    """What a run was asked to do. Made once, in the command line's room.

    `time_price` is the share of a step that may be lost for less memory, under the goal "memory".
    """

    budget_s: float = 600.0
    least_gain: float = 0.05
    error: float = 0.05
    level: float = 0.95
    max_pairs: int = 400
    min_pairs: int = 8
    trial_s: float = 60.0
    waiting_limit: float = 0.25
    spawns: int = 5
    seed: int = 0
    goal: str = "time"
    memory_budget: int | None = None
    time_price: float = 0.05
    allow: tuple[Numerics, ...] = ("same-bits", "reordered", "lower-precision", "other-randomness")
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    quality_s: float = 30.0


class Target(Noun, frozen=True, kw_only=True):
    """What was put on the dyno: `source` is how to find it again (`work.py:Digits`).

    An unmodified script has a `command`, the words that start it, and the `folder` it is started in.
    """

    name: str
    source: str
    item: str
    items_per_step: int
    steps_per_epoch: int | None
    source_hash: str = ""
    device: str = "cpu"
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    command: tuple[str, ...] = ()
    folder: str = ""


class SmokeCheck(Noun, frozen=True, kw_only=True):
    """One line of the smoke baseline (ledger A-031). `ok` None means it could not be checked."""

    name: str
    ok: bool | None
    says: str
    hint: str = ""


class Baseline(Noun, frozen=True, kw_only=True):
    """The four baselines (ledger A-020 to A-023), the performance DNA of a target."""

    data: Measurement
    forward: Measurement
    forward_zeros: Measurement
    backward: Measurement
    optimizer: Measurement
    step: Measurement
    epoch_s: float
    first_batch_s: float
    peak_bytes: int
    phases: dict[str, Split]
    stability: Stability | None = None
    memory_slope_bytes: float = 0.0
    hash: str = ""


class Proposal(Noun, frozen=True, kw_only=True):
    """A change in the queue of the walk, or why it is not. `seconds` is what a trial of it is expected to take."""

    change: Change
    layers: tuple[str, ...]
    numerics: Numerics
    predicted_low: float
    predicted_high: float
    why: str
    effort: float
    trust: float = 1.0
    seconds: float = 0.0
    refused: str | None = None


class Unpatched(Noun, frozen=True, kw_only=True):
    """A kept change that no certain edit of the source makes, and why."""

    change: Change
    why: str
    where: Place | None = None


class Patch(Noun, frozen=True, kw_only=True):
    """The kept recipe as an edit of a script's source: a unified diff, as `patch -p1` and `git apply` take it.

    `verified` is True when the edited script was run and its speed and losses were measured again; the attribution's
    total is then that of the edited script. None when it was not run, and `says` tells why.
    """

    diff: str
    files: tuple[str, ...]
    unpatched: tuple[Unpatched, ...] = ()
    verified: bool | None = None
    says: str = ""
    parity: Parity | None = None


class Failure(Noun, frozen=True, kw_only=True):
    """A step of the walk that did not finish, in a sentence."""

    step: str
    says: str


class Record(Noun, frozen=True, kw_only=True):
    """All that is known of one run. Steps of the walk replace it; nothing edits it.

    `wrote` names the files that a script wrote in its scratch copy, or anywhere else, while it was measured.
    """

    schema_version: int = SCHEMA_VERSION
    id: str
    made_by: str
    made_at: str
    command: str
    target: Target
    plan: Plan
    environment: Environment | None = None
    ceilings: Ceilings | None = None
    smoke: tuple[SmokeCheck, ...] = ()
    baseline: Baseline | None = None
    evidence: tuple[AnyEvidence, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    experiments: tuple[Experiment, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    trials: tuple[Trial, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    recipe: tuple[Change, ...] = ()
    after: tuple[AnyEvidence, ...] = ()
    attribution: Attribution | None = None
    patch: Patch | None = None
    wrote: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    finished: bool = False
    wall_s: float = 0.0
