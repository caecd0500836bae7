"""What shipping a trained module found: the document of `netdyno deploy`, and the manifest of a package."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun
from netdyno.records.environment import Environment
from netdyno.records.measured import Interval
from netdyno.records.trial import Change, Trial, Verdict

Precision = Literal["fp32", "bf16", "fp16", "int8"]
# How a runtime is supported, as its docstring ranks it.
Level = Literal["built in", "needs a package", "needs a toolchain", "needs hardware"]

# History:
# 1  the first form
SHIPMENT_VERSION = 1
MANIFEST_VERSION = 1


class Port(Noun, frozen=True, kw_only=True):
    """One input or output of a model. Its first dimension counts rows and is left out of `shape`; None is any length."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()


class Signature(Noun, frozen=True, kw_only=True):
    """What a model takes and gives, in the order of its arguments."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...] = ()


class Running(Noun, frozen=True, kw_only=True):
    """How an exported model is run, apart from what was exported.

    `batches` are the row counts that are allowed, ascending; other counts are padded up to the next one and cut again.
    Empty: any count. `spinning` False lets waiting threads sleep, which costs latency and spares the cores (a knob of the
    objective, not a default for all).
    """

    threads: int = 1
    batches: tuple[int, ...] = ()
    spinning: bool = True


class Built(Noun, frozen=True, kw_only=True):
    """One export: where it lies in the store, what it took, and how many bytes its files have."""

    key: str
    seconds: float = 0.0
    bytes: int = 0
    cached: bool = False
    notes: tuple[str, ...] = ()


class Percentile(Noun, frozen=True, kw_only=True):
    """A percentile of latency in seconds. `interval` is of order statistics; None where there are too few samples for one.

    `precise` is False where fewer samples were taken than the percentile asks for (ledger A-030: 1,000 for P99).
    """

    share: float
    seconds: float
    interval: Interval | None = None
    samples: int = 0
    precise: bool = True


class Latency(Noun, frozen=True, kw_only=True):
    """Single-stream latency of calls with `rows` rows: raw seconds of each call, in the order they were made.

    `own` are seconds of each burst per call that are the process's own doing; `cpu_s` its CPU time per call over all threads;
    `foreign` the share of the cores that other programs had meanwhile.
    """

    rows: int
    samples: tuple[float, ...]
    percentiles: tuple[Percentile, ...] = ()
    cpu_s: float = 0.0
    foreign: float = 0.0


class Rung(Noun, frozen=True, kw_only=True):
    """One rung of the parity ladder: the same rows through the module and through what was made of it.

    `sqnr_db` is the signal to quantisation noise over all outputs; `worst` and `mean` are differences relative to the spread of the
    module's own outputs; `flips` is the share of rows whose decision changes. `holds` None: it could not be judged.
    """

    name: str
    rows: int
    batch: int
    worst: float | None = None
    mean: float | None = None
    sqnr_db: float | None = None
    flips: float | None = None
    holds: bool | None = None
    says: str = ""


class Accuracy(Noun, frozen=True, kw_only=True):
    """A paired look at the whole validation set: the module's score and the candidate's, and what was lost.

    `lost` rows were right and are wrong now, `won` the other way round (McNemar 1947). `drop` is the share of rows lost less won,
    with its interval. `decision` is about `limit`: "holds", "broken", or "cannot tell", and then `needs` samples would tell.
    """

    rows: int
    control: float
    treatment: float
    lost: int = 0
    won: int = 0
    drop: Interval
    p_value: float | None = None
    limit: float
    decision: Literal["holds", "broken", "cannot tell"]
    needs: int | None = None
    says: str = ""


class LayerNoise(Noun, frozen=True, kw_only=True):
    """What quantisation does to one layer alone: signal to noise of the model's output in dB when only it is quantised."""

    layer: str
    sqnr_db: float
    kept_in_float: bool = False


class GateCheck(Noun, frozen=True, kw_only=True):
    """One item of the gate before an export. A failed one stops it; a warning does not; None could not be looked at."""

    name: str
    ok: bool | None
    says: str
    fix: str = ""
    warning: bool = False
    where: str = ""
    because: dict[str, float] = msgspec.field(default_factory=dict)


class Constraint(Noun, frozen=True, kw_only=True):
    """One part of the objective: `p99 <= 0.015`. `quantity` is p50 … p99.9, drop, memory, size, rate, energy, power, cold, first or failures."""

    quantity: str
    limit: float
    at_most: bool = True
    text: str = ""


class Met(Noun, frozen=True, kw_only=True):
    """Whether a candidate keeps one constraint: yes, no, or None for "cannot tell", with the margin in its unit."""

    constraint: Constraint
    ok: bool | None
    value: float | None = None
    says: str = ""


class Candidate(Noun, frozen=True, kw_only=True):
    """One way to run the model: what was exported (`change`: a runtime and its settings) and how it is run.

    `trial` pairs it with the module as it is in eager PyTorch, burst by burst; `verdict` is on that trial. A candidate that
    failed says why in `failed` and has the last lines of its process in `last_words`. `skipped` says why it was not tried.
    """

    change: Change
    origin: str = ""  # the release it was exported from, where that is not the shipped one: trained for int8, at another resolution
    side: int | None = None  # pixels that images are resized to before the module sees them; None: as they come
    running: Running = Running()
    precision: Precision = "fp32"
    stage: str = "screened"  # screened, raced, checked, measured: how far it came
    place: int | None = None  # in the race
    behind: float | None = None  # times the race's leader's own time
    built: Built | None = None
    parity: tuple[Rung, ...] = ()
    accuracy: Accuracy | None = None
    noise: tuple[LayerNoise, ...] = ()
    trial: Trial | None = None
    verdict: Verdict | None = None
    latency: tuple[Latency, ...] = ()
    speedup: Interval | None = None
    offline_rate: float | None = None  # rows per second at the best batch size
    load_s: float | None = None
    first_s: float | None = None
    memory_bytes: int | None = None
    # Of an answer, at most: all that the processor packages spent meanwhile, idling and neighbours included.
    energy_j: float | None = None
    met: tuple[Met, ...] = ()
    on_front: bool = False
    skipped: str | None = None
    failed: str | None = None
    last_words: str | None = None
    says: tuple[str, ...] = ()
    cost_s: float = 0.0

    @property
    def label(self) -> str:
        """Words for a person: the runtime with its settings, and the resolution where it is another."""
        return self.change.label if self.side is None else f"{self.change.label} at {self.side} pixels"

    @property
    def exact(self) -> bool:
        """True when its answers should be the module's own up to rounding."""
        return self.precision == "fp32" and self.side is None


class Resolution(Noun, frozen=True, kw_only=True):
    """One step of the resolution sweep (ledger A-112): the module itself on images of `side` pixels, before anything is exported.

    `data` is the exact share of pixels that is left. `accuracy` is paired with the module on images as they come; None: not looked at, and
    `says` has the reason.
    """

    side: int
    data: float
    accuracy: Accuracy | None = None
    says: str = ""


class ShipPlan(Noun, frozen=True, kw_only=True):
    """What `netdyno deploy` was asked to do."""

    objective: tuple[Constraint, ...] = ()
    minimise: str = "p50"
    budget_s: float = 600.0
    rows: int = 1
    batches: tuple[int, ...] = (1, 2, 4, 8)
    threads: tuple[int, ...] = ()
    least_gain: float = 0.05
    level: float = 0.95
    max_drop: float = 0.005
    seed: int = 0
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()  # items of the gate that are meant to be so
    exhaustive: bool = False
    timeout_s: float = 600.0


class Step(Noun, frozen=True, kw_only=True):
    """One rung of the latency ladder (ledger A-279): what was done, seconds of a call, the ratio to the first rung, accuracy beside it."""

    name: str
    seconds: Interval
    ratio: Interval | None = None
    accuracy: float | None = None
    says: str = ""


class Shipment(Noun, frozen=True, kw_only=True):
    """All that is known of one deployment: the gate, every way that was tried, the winner, and its package.

    `winner` is an index of `candidates`, None where nothing meets the objective: `says` then names the nearest.
    """

    schema_version: int = SHIPMENT_VERSION
    id: str
    made_by: str
    made_at: str
    command: str
    target: str
    model_hash: str = ""
    plan: ShipPlan = ShipPlan()
    environment: Environment | None = None
    signature: Signature | None = None
    gate: tuple[GateCheck, ...] = ()
    coverage: tuple[GateCheck, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    control: Candidate | None = None
    winner: int | None = None
    ladder: tuple[Step, ...] = ()
    roofline: str = ""
    package: str = ""
    energy: str = ""
    says: tuple[str, ...] = ()
    done: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    finished: bool = False
    wall_s: float = 0.0


class File(Noun, frozen=True, kw_only=True):
    """One file of a package, by its path within it."""

    path: str
    sha256: str
    bytes: int


class Manifest(Noun, frozen=True, kw_only=True):
    """What lies in a package: `manifest.json` beside the artefact. A package whose hashes differ is refused.

    `runtime` is the change whose runtime loads `artifact/`; `example` a file of sample inputs, with the answers that this
    artefact gave to them when it was built: the package proves itself when it is loaded. `warm_up` are the row counts that are run before it calls itself ready.
    """

    schema_version: int = MANIFEST_VERSION
    name: str
    version: str
    made_by: str
    made_at: str
    model_hash: str
    runtime: Change
    running: Running
    signature: Signature
    precision: Precision = "fp32"
    warm_up: tuple[int, ...] = (1,)
    classes: tuple[str, ...] = ()
    preprocessing: str = ""
    allowed: float = 1e-3
    files: tuple[File, ...] = ()
    proofs: dict[str, str] = msgspec.field(default_factory=dict)
    packages: dict[str, str] = msgspec.field(default_factory=dict)
    licences: dict[str, str] = msgspec.field(default_factory=dict)
    machine: str = ""
    flags: tuple[str, ...] = ()
    shipment: str = ""
