"""How a script learns: its losses over time, and what its gradients and weights do."""

from netdyno.records.base import Evidence, Noun, Place


class Bin(Noun, frozen=True, kw_only=True):
    """Some updates in a row, from number `at` on: how many, the mean of their losses and its spread, the learning rate of the first group."""

    at: int
    count: int
    loss: float
    spread: float
    rate: float


class Course(Noun, frozen=True, kw_only=True):
    """The training loss of one optimizer's updates, in at most 128 bins.

    `chance` is the loss of the best constant answer to the targets that were seen, None when nobody knows it; `classes` is
    the number of outputs where targets are classes. `broke` is the first update whose loss was not finite.
    `summed` micro-batches are added up in the loss. `passes` over the training loader, None without one.
    """

    optimizer: int
    kind: str
    updates: int
    bins: tuple[Bin, ...]
    first: float | None = None
    chance: float | None = None
    classes: int | None = None
    loss: str = ""
    broke: int | None = None
    nonfinite: int = 0
    last_finite: bool = True
    summed: int = 1
    passes: float | None = None
    where: Place | None = None


class Round(Noun, frozen=True, kw_only=True):
    """One evaluation after `update` updates: mean loss, the share of right answers where classes are told apart, and samples."""

    update: int
    loss: float
    accuracy: float | None
    samples: int


class Evaluation(Noun, frozen=True, kw_only=True):
    """Rounds of one evaluation, told apart by line and loader; `trains` says that its loader is the one that trains."""

    where: Place | None
    trains: bool
    loss: str
    rounds: tuple[Round, ...]


class LossCurve(Evidence, frozen=True, kw_only=True):
    """How losses went, of each optimizer and of each evaluation."""

    courses: tuple[Course, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()


class Weight(Noun, frozen=True, kw_only=True):
    """One parameter that an optimizer holds, over `looks` at its updates. Norms are of its first 16,384 numbers.

    `module` is the class of its module; `missing` and `zero` count looks with no gradient, and with one of zeros only.
    `gradient` is the median norm of its gradient at the step, `norm_first` and `norm_last` that of itself; `moved` its whole
    way from the first look to the last, `ratio` the median way of a step and `ratio_first` the longest of the first four,
    all as shares of its norm. `dead` is the share of rows with weights but without gradient in all of the last looks,
    `row_spread_first` and `row_spread_last` how far its rows are from their mean, as a share of the norm (0: all rows are equal).
    `gain` is its deviation times the root of its inputs at the first look: about 0.6 to 1.4 keeps a signal's size.
    `rewritten` looks found most of a step undone, or far more than a step changed, before the next forward pass was over.
    """

    name: str
    module: str
    shape: tuple[int, ...]
    optimizer: int
    group: int
    looks: int
    missing: int = 0
    zero: int = 0
    gradient: float | None = None
    norm_first: float | None = None
    norm_last: float | None = None
    moved: float | None = None
    ratio: float | None = None
    ratio_first: float | None = None
    dead: float | None = None
    dead_looks: int = 0
    row_spread_first: float | None = None
    row_spread_last: float | None = None
    gain: float | None = None
    rewritten: int = 0
    nonfinite: bool = False

    @property
    def is_matrix(self) -> bool:
        """True for what mixes inputs: neither a bias nor a scale, nor a table of embeddings."""
        return len(self.shape) >= 2 and "Embedding" not in self.module


class Group(Noun, frozen=True, kw_only=True):
    """A group of an optimizer's parameters: learning rates over the run, and settings; None where the optimizer has no such setting."""

    parameters: int
    lr_first: float
    lr_most: float
    lr_last: float
    weight_decay: float | None = None
    momentum: float | None = None
    eps: float | None = None


class Stepper(Noun, frozen=True, kw_only=True):
    """One optimizer: what it holds, and what it met at its steps.

    Of `parameters`, `strange` ones are in no model that was called; `strange_graded` of those ever had a gradient.
    `cleared` looks found no gradient at the step though the backward passes before it had made one; `flushed` is the median
    share of a gradient's numbers that were set to zero in between. `backwards` is the usual number of passes per step,
    `divided` the median of what was differentiated over what the loss function gave. `norms` are whole gradient norms at looks.
    `decay` is the pull of weight decay over that of gradients, the median of looks; `eps_share` is eps over the root of the
    mean squared gradient that Adam keeps.
    """

    index: int
    kind: str
    groups: tuple[Group, ...]
    steps: int
    looks: int
    parameters: int
    strange: int = 0
    strange_graded: int = 0
    cleared: int = 0
    flushed: float | None = None
    backwards: int = 1
    divided: float | None = None
    norms: tuple[float, ...] = ()
    decay: float | None = None
    eps_share: float | None = None
    where: Place | None = None


class Clipping(Noun, frozen=True, kw_only=True):
    """One line that clips gradients by their norm, over `looks`: how often the limit held, and the medians of both."""

    where: Place | None
    looks: int
    clipped: int
    limit: float
    norm: float


class Hidden(Noun, frozen=True, kw_only=True):
    """A parameter that a module holds in a plain container, and that no optimizer moves; `graded` says that it got a gradient."""

    name: str
    graded: bool


class Gradients(Evidence, frozen=True, kw_only=True):
    """What gradients and weights did in the updates that were looked at.

    `weights` come in the order of their optimizers. `homeless` parameters of called models got gradients and no optimizer
    holds them, of `trainable` that ask for one; `frozen` numbers of `numbers` don't ask. `models` is how many modules of the
    kind of the last one were trained one after another, `models_passes` the most passes over the loader that one of them
    saw. `misspelt` are attributes that look like a freeze and freeze nothing, with their owner. `copies` are pairs of parameters
    of different modules that were equal at the first look and are no more. `normalised`: the model has layers that normalise.
    `backward_where` is the line of the last backward pass.
    """

    updates: int
    looks: int
    weights: tuple[Weight, ...] = ()
    steppers: tuple[Stepper, ...] = ()
    clips: tuple[Clipping, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    hidden_where: Place | None = None
    homeless: tuple[str, ...] = ()
    homeless_count: int = 0
    trainable: int = 0
    frozen: int = 0
    numbers: int = 0
    models: int = 1
    models_passes: float | None = None
    misspelt: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    normalised: bool = False
    recurrent: bool = False
    dropout: float | None = None
    dropout_where: Place | None = None
    backward_where: Place | None = None
    optimizer_where: Place | None = None
    model_where: Place | None = None
