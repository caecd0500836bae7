"""What the probes write down. Every kind is one class; its tag in JSON is `kind`."""

import msgspec

from netdyno.records.base import Noun
from netdyno.records.measured import Split


class Evidence(Noun, tag_field="kind", tag=True, frozen=True, kw_only=True):
    """What every kind carries: `cost_s`, the seconds that collecting it took."""

    cost_s: float = 0.0


class Place(Noun, frozen=True, kw_only=True):
    """Where in the user's program: a source line, a module path, a sample, a step."""

    file: str | None = None
    line: int | None = None
    module: str | None = None
    sample: int | None = None
    step: int | None = None


class StepTimeline(Evidence, frozen=True, kw_only=True):
    """Where the time of a training step goes, per step, in seconds.

    `phases` are exclusive: data, collate, copy, forward, loss, backward, optimizer, log, rest.
    `step` is the wall time per step measured from outside; `own_overhead_s` what the stopwatch
    itself costs per step.
    """

    steps: int
    step: Split
    phases: dict[str, Split]
    own_overhead_s: float = 0.0

    def share(self, *names: str) -> float:
        """The share of a step's own time (running plus blocked) that these phases take."""
        whole = self.step.own
        return sum(self.phases[name].own for name in names if name in self.phases) / whole if whole else 0.0

    @property
    def explained(self) -> float:
        """The share of wall time that named phases account for (`rest` is not named)."""
        named = sum(split.wall for name, split in self.phases.items() if name != "rest")
        return named / self.step.wall if self.step.wall else 0.0


class LoaderProfile(Evidence, frozen=True, kw_only=True):
    """How one sample is made, read straight from the dataset: seconds per sample, bytes per batch.

    `augment` is the part of `sample` spent in the declared random transform. `deterministic`
    says that two reads of the same samples under different random state were bit-equal.
    `epoch_start_s` is the time to the first batch of an epoch; `batch_size` 0 means that nobody wrote it down.
    """

    sample: Split
    augment: Split
    collate: Split
    batch_bytes: int
    samples: int
    dataset_bytes: int | None
    deterministic: bool
    stackable: bool
    workers: int
    first_batch_s: float
    epoch_start_s: float
    memory_slope_bytes: float = 0.0
    iterable: bool = False
    batch_size: int = 0

    @property
    def samples_per_batch(self) -> float | None:
        """The batch size as written down, or as the bytes of the data set imply it; None when neither is known."""
        if self.batch_size:
            return float(self.batch_size)
        return self.batch_bytes * self.samples / self.dataset_bytes if self.dataset_bytes else None


class Layer(Noun, frozen=True, kw_only=True):
    """One leaf module in one forward pass. `bytes` is what it must move at least: in, weights, out.

    `seconds` is its forward time, `share_of_ceiling` the achieved part of what the roofline allows.
    """

    module: str
    kind: str
    flops: float
    bytes: float
    seconds: float
    intensity: float
    share_of_ceiling: float | None = None
    where: Place | None = None


class LayerTable(Evidence, frozen=True, kw_only=True):
    """Work per leaf module (ledger A-050), and of the whole step: forward, and forward plus backward."""

    layers: tuple[Layer, ...]
    forward_flops: float
    step_flops: float
    step_bytes: float
    dtype: str
    ridge: float
    compute_seconds: float

    @property
    def intensity(self) -> float:
        """FLOP per byte of the whole step."""
        return self.step_flops / self.step_bytes if self.step_bytes else 0.0


class MemoryAccount(Evidence, frozen=True, kw_only=True):
    """Where the memory of one training step goes, in bytes (ledger A-052, A-058, A-121)."""

    parameters: int
    buffers: int
    gradients: int
    optimizer_state: int
    activations: int
    workspace: int
    batch: int
    peak: int
    capacity: int
    available: int

    @property
    def pressure(self) -> float:
        """The peak as a share of what was available to the run before it began."""
        return self.peak / self.available if self.available else 0.0


class Op(Noun, frozen=True, kw_only=True):
    """One kind of operator over one step: calls, own seconds, bytes it must move at least."""

    name: str
    calls: float
    seconds: float


class OpTable(Evidence, frozen=True, kw_only=True):
    """Operators of one training step, as the dispatcher saw them.

    `dispatches` counts operator calls per step, `python_s` is step time spent outside operators.
    """

    ops: tuple[Op, ...]
    dispatches: float
    operator_s: float
    python_s: float


class SyncSite(Noun, frozen=True, kw_only=True):
    """A line that reads a tensor's value back into Python, and how often per step."""

    where: Place
    call: str
    per_step: float


class SyncSites(Evidence, frozen=True, kw_only=True):
    """Every `.item()`, `bool(tensor)`, `.tolist()`, `nonzero` of a step, by line of the user's code."""

    sites: tuple[SyncSite, ...]
    seconds_per_step: float = 0.0


class ThreadUse(Evidence, frozen=True, kw_only=True):
    """Threads against cores. `waiting_share` is the part of wall time spent waiting for a core,
    `others_share` the part of the machine that processes outside this run were using."""

    torch_threads: int
    interop_threads: int
    cores: int
    workers: int
    worker_threads: int
    waiting_share: float
    others_share: float
    step_seconds_by_threads: dict[str, float] = msgspec.field(default_factory=dict)


class GraphBreaks(Evidence, frozen=True, kw_only=True):
    """What `torch.compile` could not trace: reasons with their lines; compile time in seconds."""

    graphs: int
    breaks: int
    reasons: tuple[str, ...]
    compile_s: float


class MachineState(Evidence, frozen=True, kw_only=True):
    """The host at the time of the run (ledger A-056): load, pressure, memory, disk."""

    load: float
    cpu_pressure: float
    memory_available: int
    memory_total: int
    swap_used: int
    temporary_free: int
    shared_memory_free: int


AnyEvidence = (
    StepTimeline
    | LoaderProfile
    | LayerTable
    | MemoryAccount
    | OpTable
    | SyncSites
    | ThreadUse
    | GraphBreaks
    | MachineState
)
