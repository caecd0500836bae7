"""What the probes write down. Every kind is one class; its tag in JSON is `kind`."""

import msgspec

from netdyno.records.base import Evidence as Evidence  # noqa: PLC0414 - told from here too
from netdyno.records.base import Noun
from netdyno.records.base import Place as Place  # noqa: PLC0414
from netdyno.records.calls import CallTraces, CustomGradients, LossCalls, ModelProbe, NonFinite
from netdyno.records.growth import Growth, Ranks, Waste, WorkerStarts
from netdyno.records.learning import Gradients, LossCurve
from netdyno.records.measured import Split
from netdyno.records.modes import Consistency, EvaluationRounds, ModeUse
from netdyno.records.samples import Grain, Samples
from netdyno.records.scores import Scores
from netdyno.records.shipping import BatcherUse, InplaceWrites, RandomUse, SaveUse, ShippingUse

# Time of a script in which none of the calls that are watched was under way, named by the call that came last.
GAP = "after "


class StepTimeline(Evidence, frozen=True, kw_only=True):
    """Where the time of a training step goes, per step, in seconds.

    `phases` are exclusive: data, collate, copy, forward, loss, backward, optimizer, log, rest. A script's have also
    recompute, clip, zero_grad, scheduler, sync, save and evaluation, and gaps that are told by what came before them
    (`after forward`); a gap whose time is known by its lines stands in `named_gaps`.
    `step` is the wall time per step measured from outside; `own_overhead_s` what the stopwatch
    itself costs per step.
    """

    steps: int
    step: Split
    phases: dict[str, Split]
    own_overhead_s: float = 0.0
    named_gaps: tuple[str, ...] = ()

    def share(self, *names: str) -> float:
        """The share of a step's own time (running plus blocked) that these phases take."""
        whole = self.step.own
        return sum(self.phases[name].own for name in names if name in self.phases) / whole if whole else 0.0

    @property
    def explained(self) -> float:
        """The share of wall time that is accounted for: neither `rest` nor a gap that no line names."""
        named = sum(split.wall for name, split in self.phases.items() if self.is_named(name))
        return named / self.step.wall if self.step.wall else 0.0

    def is_named(self, phase: str) -> bool:
        """True when it is known what the time of `phase` went to."""
        return phase != "rest" and (not phase.startswith(GAP) or phase in self.named_gaps)


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


class OptimizerUse(Noun, frozen=True, kw_only=True):
    """One optimizer of a script: its class, the steps it took, and the ones that a gradient scaler left out."""

    index: int
    optimizer: str
    steps: int
    skipped: int = 0
    settings: dict[str, str] = msgspec.field(default_factory=dict)


class Stretch(Noun, frozen=True, kw_only=True):
    """Lines of a script that time in no watched call lies between; `share` of the times that it was looked at.

    Where a framework drives the script, `framework` is the function of it that made the next call.
    """

    file: str
    first: int
    last: int
    share: float
    framework: str = ""


class ScriptTrace(Evidence, frozen=True, kw_only=True):
    """How an unmodified script was watched, and what an update is in it.

    `updates` were counted by `counted_by` (optimizer, backward, forward, batch, time); `cycle` of them make one period
    of `events`, the strings of calls that updates were made of, with how often each was seen. `span_s` are the seconds
    that were watched, `own_s` those of them that the watching took, `unattributed` the share that neither a watched call
    nor a line accounts for. `unfired` are patch points that the start-up test found dead. `stopped` says what ended it.
    `burst` says that only some updates were watched closely, since updates are so short that the watch would weigh on them.
    `threads` are PyTorch's own. `gaps` has the lines between which each gap was seen to last. `places` are lines of the user's files by what was seen there: loaders, optimizers and models constructed; forwards,
    losses, backwards and evaluations called.
    """

    attached: str
    processes: int
    updates: int
    counted_by: str
    cycle: int | None
    events: tuple[tuple[str, int], ...]
    optimizers: tuple[OptimizerUse, ...]
    span_s: float
    own_s: float
    unattributed: float
    watched: int = 0
    burst: tuple[int, int] | None = None
    unfired: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    stopped: str = ""
    checksum: str | None = None
    threads: int | None = None
    gaps: dict[str, tuple[Stretch, ...]] = msgspec.field(default_factory=dict)
    places: dict[str, tuple[Place, ...]] = msgspec.field(default_factory=dict)


class LineCost(Noun, frozen=True, kw_only=True):
    """A line of a script that samples of its stack fell on: the innermost one outside of libraries.

    `phase` is what the script was doing, `framework` what of a library the line was in, `samples` how many fell there and
    `share` their part of all samples, that is of the span.
    """

    where: Place
    function: str
    phase: str
    samples: int
    share: float
    framework: str = ""


class LineCosts(Evidence, frozen=True, kw_only=True):
    """On which lines of a script its training thread was met, in `samples` looks at `hz` looks a second, all phases together."""

    lines: tuple[LineCost, ...]
    samples: int
    hz: float

    def of(self, *phases: str) -> tuple[LineCost, ...]:
        """The lines of these phases, the costliest first."""
        return tuple(sorted((line for line in self.lines if line.phase in phases), key=lambda line: -line.samples))


class Loader(Noun, frozen=True, kw_only=True):
    """A DataLoader of a script, as it was constructed on one line and then used.

    `trains` says that updates were made of its batches. A pass has `batches_per_pass` of them, None when nobody knows.
    `sampler` is the class that orders the samples, `ordered` says that it takes them as the data set has them, and
    `own_order` that the author passed a sampler or batch sampler; None when that was not seen. `built` counts
    constructions on that line, `passes` the times it was iterated over, `batches` all batches taken. `build_s` are the
    seconds of one construction, `start_s` those until the first batch of a pass. `labels_vary` is False when labels were
    seen and the first batches held one class each; `sequence` says that targets are the inputs of another position.
    """

    where: Place | None
    dataset: str
    trains: bool
    iterable: bool
    batch_size: int | None
    batches_per_pass: int | None
    sampler: str
    ordered: bool
    own_order: bool | None
    workers: int
    pinned: bool = False
    persistent: bool = False
    built: int = 1
    passes: int = 1
    batches: int = 0
    build_s: float = 0.0
    start_s: float = 0.0
    sequence: bool = False
    labels_vary: bool | None = None


class LoaderUse(Evidence, frozen=True, kw_only=True):
    """The loaders of a script, one for each line that constructs one, and the seconds that were watched."""

    loaders: tuple[Loader, ...]
    span_s: float


class EvaluationUse(Evidence, frozen=True, kw_only=True):
    """How a script evaluates: passes without gradients, and what they cost of `span_s` watched seconds, waiting for a core
    left out.

    `forwards` are all top-level passes without gradients; `own_forwards` those of models that are trained, in evaluation
    mode: neither a teacher's nor a target network's, nor the choices of what to do next in an environment. Own passes
    between two updates are one of `rounds`. `seconds` went to all of it, `training_s` to training. `with_gradients` are
    passes, several in a row, that recorded a graph which no backward pass ever used; they took `gradient_s`.
    """

    updates: int
    forwards: int
    own_forwards: int
    rounds: int
    seconds: float
    training_s: float
    span_s: float
    with_gradients: int = 0
    gradient_s: float = 0.0
    where: Place | None = None


class ParameterUse(Evidence, frozen=True, kw_only=True):
    """Which parameters of the models that ran in training with gradients ever received one, over `updates` updates.

    Of `parameters` tensors, `unreached_count` ask for a gradient and never got one (`unreached` are the first names); frozen
    ones don't ask. `ran` says whether the modules of those were seen to run in training, None when nobody looked.
    `homeless` get gradients, and no optimizer moves them. `unseen` says that gradients arrived in modules of which no call was seen.
    """

    updates: int
    parameters: int
    unreached: tuple[str, ...] = ()
    unreached_count: int = 0
    ran: bool | None = None
    homeless: tuple[str, ...] = ()
    unseen: bool = False


class UpdateOrder(Evidence, frozen=True, kw_only=True):
    """In which order an update's calls come, over `updates` updates.

    `clips` are updates that clip gradients, `scaled_clips` those of them that clip while the gradients are multiplied by a
    loss scale. `scaler_steps` are steps through an enabled gradient scaler, `skipped` those it left out, `skipped_late`
    those among them that came after a step that was taken. `never_cleared` says that an optimizer's gradients were looked at
    before several backward passes and were never None or zero.
    """

    updates: int
    clips: int = 0
    scaled_clips: int = 0
    clip_where: Place | None = None
    scaler_steps: int = 0
    skipped: int = 0
    skipped_late: int = 0
    never_cleared: bool = False


class Chore(Noun, frozen=True, kw_only=True):
    """What a script does beside training: `what` is save or log, on one line, `count` times, `seconds` together."""

    what: str
    where: Place | None
    count: int
    seconds: float
    share: float


class Ending(Evidence, frozen=True, kw_only=True):
    """That a script ended with an error of its own: its type, its message, the user's line that raised it, and the text it left."""

    error: str
    message: str
    where: Place | None = None
    words: str = ""
    updates: int = 0


class Warned(Noun, frozen=True, kw_only=True):
    """A warning that Python or a library gave, how often, and the user's line it came from."""

    category: str
    message: str
    where: Place | None = None
    times: int = 1


class Warnings(Evidence, frozen=True, kw_only=True):
    """What the script was warned of."""

    warnings: tuple[Warned, ...]


class Chores(Evidence, frozen=True, kw_only=True):
    """Saves and logs of a script, by line, over `updates` updates."""

    chores: tuple[Chore, ...]
    updates: int

    def worst(self, what: str) -> Chore | None:
        """The line that takes most of the time of this kind of chore."""
        return max((one for one in self.chores if one.what == what), key=lambda one: one.seconds, default=None)


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
    | ScriptTrace
    | LineCosts
    | LoaderUse
    | EvaluationUse
    | ParameterUse
    | UpdateOrder
    | Chores
    | Ending
    | Warnings
    | ModeUse
    | Consistency
    | EvaluationRounds
    | CallTraces
    | LossCalls
    | ModelProbe
    | NonFinite
    | Scores
    | LossCurve
    | Gradients
    | Growth
    | Waste
    | Samples
    | SaveUse
    | ShippingUse
    | RandomUse
    | InplaceWrites
    | BatcherUse
    | Grain
    | Ranks
    | WorkerStarts
    | CustomGradients
)
