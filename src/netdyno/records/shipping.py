"""What is known of saving, loading, exporting and serving, and of chance in a run."""

from netdyno.records.base import Evidence, Noun, Place


class StateLoad(Noun, frozen=True, kw_only=True):
    """One call of `load_state_dict` of a module, after `at` updates.

    Of the model's `keys`, `missing_count` were not in what was loaded (`missing` are the first), and make `missing_share` of the
    numbers in its parameters; `unexpected` the other way round. `twins` missing keys have an unexpected one of the same
    shape, and with `prefix` taken off or put on they all fit. `unmoved` says that the missing weights still are what they
    were before; `evaluated` are calls without gradients and `trained` training calls since. `filled_before` says that the
    module was trained or loaded before.
    `captured` is after which update the loaded numbers were the model's; `alias` says that they were not a copy, but its own
    tensors, which training had changed since. `captures` counts the states taken from it.
    `with_optimizer` says that the file held an optimizer's state, `optimizer_loads` how many were loaded afterwards, and `fresh`
    names the optimizer that then went on with no state of its own; `same_settings` says that its learning rate, class and number of weights are
    those of before. `before` and `after` are training losses on both sides of the load. `repeats` are batches in a row that came
    again after it as they came at the start.
    """

    model: str
    at: int
    strict: bool
    keys: int
    missing: tuple[str, ...] = ()
    missing_count: int = 0
    missing_share: float = 0.0
    unexpected: tuple[str, ...] = ()
    unexpected_count: int = 0
    twins: int = 0
    prefix: str = ""
    unmoved: bool = False
    evaluated: int = 0
    trained: int = 0
    filled_before: bool = False
    captured: int | None = None
    alias: bool = False
    captures: int = 0
    file: str = ""
    with_optimizer: bool = False
    optimizer_loads: int = 0
    fresh: str | None = None
    same_settings: bool = False
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()
    repeats: int = 0
    where: Place | None = None


class FileSave(Noun, frozen=True, kw_only=True):
    """Calls of `torch.save` on one line: `times`, and in the worst of them the bytes of its tensors and of the storages they lie in.

    `alias_age` are the updates since a saved state was taken from its model, where it was no copy.
    """

    times: int
    bytes: int
    stored: int
    alias_age: int = 0
    captures: int = 0
    where: Place | None = None


class SaveUse(Evidence, frozen=True, kw_only=True):
    """What a script of `updates` updates saved and loaded."""

    updates: int
    loads: tuple[StateLoad, ...] = ()
    saves: tuple[FileSave, ...] = ()
    optimizer_loads: int = 0


class InplaceWrite(Noun, frozen=True, kw_only=True):
    """One change in place: the name of the call, the shape of what was changed, and what had made it."""

    call: str
    shape: tuple[int, ...]
    made_by: str = ""
    where: Place | None = None


class InplaceWrites(Evidence, frozen=True, kw_only=True):
    """The last changes in place, with gradients, before the script ended: shapes of tensors and lines, the last one first."""

    writes: tuple[InplaceWrite, ...] = ()


class Spread(Noun, frozen=True, kw_only=True):
    """Where numbers lie: the ends, the mean, the standard deviation."""

    low: float
    high: float
    mean: float
    std: float


class Derived(Noun, frozen=True, kw_only=True):
    """Something made of a model to be run instead of it: `how` is trace, script, onnx, export, half, int8.

    `awake` names layers that behaved as in training when it was made. On `rows` rows of `inputs` real inputs its answers were
    compared with those of `model` in evaluation mode: `error` is the root mean square difference in units of the spread of the
    model's answers, `worst` the largest difference of one row in the same unit, `agreement` the share of rows with the same largest output. `example` is what it was made
    with, `real` what it was given later. `baked` says that the same answers come out where the model's own differ.
    `distinct` counts different answers among the rows, `model_distinct` the model's own; `bad` is the share of rows with a
    number that is none. `peak` is the largest magnitude within the model on these rows, at `peak_op`, first passed at `peak_where`.
    `layers` are signal-to-noise ratios of its layers in dB, the worst first. `calibrated` says that `example` is what ranges were taken of, and
    `outside` is the share of real numbers outside of it.
    """

    how: str
    model: str
    awake: tuple[str, ...] = ()
    rows: int = 0
    inputs: int = 0
    error: float | None = None
    worst: float | None = None
    agreement: float | None = None
    example: Spread | None = None
    real: Spread | None = None
    distinct: int = 0
    model_distinct: int = 0
    bad: float = 0.0
    peak: float | None = None
    peak_op: str = ""
    peak_where: Place | None = None
    layers: tuple[tuple[str, float], ...] = ()
    calibrated: bool = False
    outside: float | None = None
    where: Place | None = None


class Skew(Noun, frozen=True, kw_only=True):
    """The same records, given to one model on two lines in two forms.

    `rows` records were met on both. Their numbers on `where` are `scale` times those on `reference`, and moved by `offset` of their own deviations; `permuted`
    says that the same channels come in another order. `flips` is the share of them whose largest output differs.
    """

    model: str
    rows: int
    scale: float
    offset: float = 0.0
    permuted: bool = False
    flips: float | None = None
    reference: Place | None = None
    where: Place | None = None


class Doubled(Noun, frozen=True, kw_only=True):
    """A sigmoid or softmax of a sigmoid's or softmax's own output, `times` times; mean largest share before and after."""

    function: str
    times: int
    before: float
    after: float
    where: Place | None = None


class ShippingUse(Evidence, frozen=True, kw_only=True):
    """What was exported, how it answers, and what it is given."""

    derived: tuple[Derived, ...] = ()
    skews: tuple[Skew, ...] = ()
    doubled: tuple[Doubled, ...] = ()


class SeededRun(Noun, frozen=True, kw_only=True):
    """Two trainings of one script that began with the same seed.

    Their first `same` losses are equal bit by bit; then they part, after `evaluations` evaluations in the one and
    `other_evaluations` in the other, which took random numbers. `lasts` says how far apart the last losses are, relatively.
    """

    seed: int
    same: int
    evaluations: int
    other_evaluations: int
    apart: float | None = None


class RandomUse(Evidence, frozen=True, kw_only=True):
    """Who takes random numbers from PyTorch's own generator, over `rounds` evaluations."""

    seeds: int
    rounds: int
    parted: tuple[SeededRun, ...] = ()
    where: Place | None = None


class BatcherUse(Evidence, frozen=True, kw_only=True):
    """Calls of a model from a thread that gathers requests from a queue.

    `calls` calls took `requests` requests; before `timeouts` of them the queue was waited on in vain, `waited_s` seconds
    in all. `blocked` other threads stood still on the line `where`, in the middle look.
    """

    calls: int
    requests: int
    timeouts: int
    waited_s: float
    blocked: int = 0
    where: Place | None = None
