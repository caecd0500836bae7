"""What grows with the updates of a script, and what is costly in it though nobody needs it."""

from netdyno.records.base import Evidence, Noun, Place


class GraphSize(Noun, frozen=True, kw_only=True):
    """The graph that a backward pass starts from: its nodes, and those of them made in an earlier update.

    `capped` says that the walk ended before the graph did; the nodes nearest to the loss were counted.
    """

    update: int
    nodes: int
    old: int
    capped: bool = False


class Swelling(Noun, frozen=True, kw_only=True):
    """A list, dictionary or cache of the user's that had `first` entries at one update and `last` at a later one.

    `each_bytes` are the bytes of the tensor or array that came last, None where it was neither.
    """

    name: str
    where: Place | None
    first: int
    last: int
    updates: int
    each_bytes: int | None = None


class Private(Noun, frozen=True, kw_only=True):
    """Bytes that loader workers had for themselves, all together, when `batches` had come."""

    batches: int
    workers: int
    bytes: int


class Growth(Evidence, frozen=True, kw_only=True):
    """What a script holds, at some of its `updates`.

    `resident` are pairs of update and bytes of the process, `running_s` pairs of update and seconds that the training
    thread had run. `graphs` are sizes of the graph under the loss. `marked` graphs of losses were marked at least 20
    updates before the last look, `kept` of them were still alive then. `keeper` is the variable that holds such a graph
    and `keeper_where` the line that last assigns it; `carried` is the line that calls a module with a tensor made in an
    earlier update, its graph still on it. `hooks` are pairs of update and hooks on the models, `hook_where` the line that
    registers most, `hook_adds` times. `children` are pairs of update and worker processes. `dataset` holds `objects` Python
    objects in its largest container. `state_bytes` are the optimizers' state, `frozen_state_bytes` those of weights that no
    longer ask for a gradient in optimizers that still step. `outputs_kept_bytes` are the most that one evaluation held of `outputs` outputs of its own.
    """

    updates: int
    cycle: int
    resident: tuple[tuple[int, int], ...]
    running_s: tuple[tuple[int, float], ...] = ()
    graphs: tuple[GraphSize, ...] = ()
    marked: int = 0
    kept: int = 0
    keeper: str = ""
    keeper_where: Place | None = None
    carried: Place | None = None
    hooks: tuple[tuple[int, int], ...] = ()
    hook_where: Place | None = None
    hook_adds: int = 0
    children: tuple[tuple[int, int], ...] = ()
    swellings: tuple[Swelling, ...] = ()
    private: tuple[Private, ...] = ()
    dataset: str = ""
    objects: int = 0
    parameter_bytes: int = 0
    state_bytes: int = 0
    frozen_state_bytes: int = 0
    outputs: int = 0
    outputs_kept_bytes: int = 0
    outputs_where: Place | None = None


class Recompiled(Noun, frozen=True, kw_only=True):
    """A function that the compiler took on `times` times; `reason` is the guard that failed last."""

    function: str
    where: Place | None
    times: int
    seconds: float
    reason: str = ""


class Repeated(Noun, frozen=True, kw_only=True):
    """Something that was done `times` times on one line, over `updates` updates, in `seconds` where it was timed."""

    what: str
    where: Place | None
    times: int
    updates: int
    seconds: float = 0.0


class Waste(Evidence, frozen=True, kw_only=True):
    """What is costly in a script and may be needless.

    Shares are of parameters. `float64_share` are those in double precision, `float64_where` the line that made them so,
    `float64_default` says that it was declared for all tensors; `first_loss` and `last_loss` say how fine differences are.
    `anomaly` of `backwards` looked-at passes ran in anomaly mode. `threads_set` is what the script asked for itself.
    `retained` of `passes` backward passes kept their graph by request. `again` are calls of a model on an input that it had
    just had, unused by any backward pass, over `again_updates` looked-at updates; `again_graph` of them recorded a graph.
    `idle_share` are parameters that get gradients and are in no optimizer, `idle_resting` says that all their modules are
    in evaluation mode. `batch` is the first size of what the model is called with, and `sizes` are its others, without features.
    """

    updates: int
    cores: int
    threads: int
    threads_set: int | None = None
    threads_where: Place | None = None
    float64_share: float = 0.0
    float64_where: Place | None = None
    float64_default: bool = False
    first_loss: float | None = None
    last_loss: float | None = None
    anomaly: int = 0
    backwards: int = 0
    anomaly_where: Place | None = None
    recompiled: tuple[Recompiled, ...] = ()
    recompile_limit: int = 0
    compile_s: float = 0.0
    retained: int = 0
    passes: int = 0
    retained_where: Place | None = None
    again: int = 0
    again_updates: int = 0
    again_looked: int = 0
    again_graph: int = 0
    again_random: bool = False
    again_where: Place | None = None
    idle_share: float = 0.0
    idle_count: int = 0
    idle_first: str = ""
    idle_resting: bool = False
    copies: tuple[Repeated, ...] = ()
    fsyncs: tuple[Repeated, ...] = ()
    opens: tuple[Repeated, ...] = ()
    batch: int | None = None
    sizes: tuple[int, ...] = ()


class Rank(Noun, frozen=True, kw_only=True):
    """One of the processes that train together, per update in seconds: `busy_s` is what it does itself in its loop.

    `waits_s` is spent blocked in the backward pass, where gradients of all are averaged. `where` is the line of its loop that
    it was met on most, outside of the backward pass.
    """

    number: int
    updates: int
    busy_s: float
    waits_s: float
    where: Place | None = None


class Ranks(Evidence, frozen=True, kw_only=True):
    """The processes of one training, in the order in which they were started; `step_s` is the time of an update."""

    ranks: tuple[Rank, ...]
    step_s: float


class Restarted(Noun, frozen=True, kw_only=True):
    """A loader whose `workers` were started `starts` times: making and ending them took `seconds` of the training thread."""

    where: Place | None
    workers: int
    starts: int
    seconds: float


class WorkerStarts(Evidence, frozen=True, kw_only=True):
    """Loaders whose workers end with each pass, over `span_s` from the first start to the last end."""

    loaders: tuple[Restarted, ...]
    span_s: float
