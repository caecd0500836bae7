"""What a model was fed in training and in evaluation: rows, labels, scales, overlaps."""

from netdyno.records.base import Evidence, Noun, Place


class Drift(Noun, frozen=True, kw_only=True):
    """One input feature whose values differ between training and evaluation.

    `distance` is the largest gap between the two distribution functions (Kolmogorov–Smirnov), 0 to 1.
    """

    feature: int
    distance: float
    train_mean: float
    train_std: float
    eval_mean: float
    eval_std: float


class LoaderRows(Noun, frozen=True, kw_only=True):
    """What came out of one loader that trains, over its whole passes that were seen.

    `rows` and `distinct` are of the largest pass, `ever` are the distinct rows of all passes, `covered` the rows of its
    data set that any loader gave, as a share (None: rows change from pass to pass, so nobody knows). `same_order` counts
    passes whose order was that of the first. `times_each` is how often the median row came in one pass.
    `seeded_alike` tells what the workers draw from in the same state ("" for none), `ranks` the processes that train together.
    """

    where: Place | None
    dataset: str
    sampler: str
    workers: int
    iterable: bool
    dataset_rows: int | None
    passes: int
    rows: int
    distinct: int
    ever: int
    covered: float | None
    same_order: int
    times_each: float
    shuffles: bool
    one_batch: bool = False
    batch_size: int | None = None
    seeded_alike: str = ""
    ranks: int = 1
    epoch_set: bool | None = None


class Samples(Evidence, frozen=True, kw_only=True):
    """The rows that went into the model, and what they were judged by.

    Rows are counted in `*_rows` (with repeats) and `*_distinct`; evaluation leaves out calls that only read training rows
    again, and may be fewer than there were: `eval_round` is the most rows that were evaluated between two updates. `task` is "classes", "numbers" or "" (unknown); `joint` says that several calls shared one backward pass, so labels
    of a single call mean little. Losses are means over the first and the last updates; `guess_loss` is the loss of the best
    constant answer, `*_score` the share of right answers or R² of late calls, `*_guess` that of the best constant answer.
    `bits` is what all features tell together if each tells its own (sum of their entropies). `levels` are the steps between lowest and highest value when values lie on a lattice. Shares are between 0 and 1.
    `where` and `eval_where` are the statements that last computed the inputs, or else the lines that call the model with them;
    `targets_where` those of the labels, `split_where` the one that parted the two sides and `whole_where` what it was given; None unknown.
    `neighbours` is how often a row has its nearest neighbour's label (or how much of a number it explains), `chance` what
    unrelated labels would give. Of `slices` groups that share a value of one feature `slice_feature` = `slice_value` is answered worst: `slice_score` is right,
    of the others `slice_rest`; its classes alone let expect `slice_expected`, and `slice_z` is the distance in standard deviations.
    `near_rows` is the share of evaluation rows with a few training rows far nearer than all others: how well labels of the nearest one fit
    is `near_agree`, and those of the nearest of the others `beyond_agree`. `windows_before` and `windows_after` are the shares of evaluation rows whose first or
    last numbers, at least half of them, are the last or first ones of a training row, as in windows that begin earlier or later.
    `disputed` is the share of rows whose neighbours agree on another label, `alone` what the best feature
    explains of the target by itself.
    """

    updates: int
    train_rows: int
    train_distinct: int
    eval_rows: int
    eval_distinct: int
    eval_rounds: int
    eval_round: int | None = None
    features: int
    floating: bool
    looked: int
    task: str
    classes: int
    outputs: int | None
    joint: bool
    where: Place | None = None
    eval_where: Place | None = None
    targets_where: Place | None = None
    eval_targets_where: Place | None = None
    split_where: Place | None = None
    whole_where: Place | None = None
    loss_name: str = ""
    weighted: bool = False
    first_loss: float | None = None
    last_loss: float | None = None
    guess_loss: float | None = None
    eval_loss: float | None = None
    losses_lost: int = 0
    train_score: float | None = None
    train_guess: float | None = None
    eval_score: float | None = None
    eval_guess: float | None = None
    # ranges
    rms: float | None = None
    low: float | None = None
    high: float | None = None
    offset: float | None = None
    spread_ratio: float | None = None
    constant_features: int = 0
    integers: float = 0.0
    bits: float | None = None
    levels: int | None = None
    wrapped: float | None = None
    # numbers that are none
    bad_rows: int = 0
    bad_times: int = 0
    bad_sample: int | None = None
    bad_feature: int | None = None
    bad_first: int | None = None
    bad_eval_rows: int = 0
    # training against evaluation
    drifted: tuple[Drift, ...] = ()
    drifted_share: float = 0.0
    scale_ratio: float | None = None
    scale_spread: float | None = None
    standardised: str = ""
    swapped: tuple[int, ...] = ()
    swap_before: float | None = None
    swap_after: float | None = None
    train_labels: tuple[int, ...] = ()
    eval_labels: tuple[int, ...] = ()
    recall: tuple[float | None, ...] = ()
    train_recall: tuple[float | None, ...] = ()
    label_distance: float | None = None
    overlap: int = 0
    repeated: float = 0.0
    near_rows: float | None = None
    near_agree: float | None = None
    beyond_agree: float | None = None
    windows_before: float | None = None
    windows_after: float | None = None
    overlap_score: float | None = None
    rest_score: float | None = None
    # groups that share a value of one feature, in the last evaluation
    slices: int = 0
    slice_feature: int | None = None
    slice_value: float | None = None
    slice_rows: int = 0
    slice_score: float | None = None
    slice_rest: float | None = None
    slice_expected: float | None = None
    slice_z: float | None = None
    # labels against inputs
    conflicts: int = 0
    neighbours: float | None = None
    chance: float | None = None
    eval_neighbours: float | None = None
    shift: int | None = None
    shifted_neighbours: float | None = None
    disputed: float | None = None
    eval_disputed: float | None = None
    best_feature: int | None = None
    alone: float | None = None
    second: float | None = None
    alone_eval: float | None = None
    # order
    batch_spread: float | None = None
    from_loader: bool = False
    # batches far outside
    spike_ratio: float | None = None
    spike_times: int = 0
    spike_rounds: int = 0
    spike_loss: float | None = None
    spike_rows: int = 0
    pad_share: float | None = None
    pad_id: int | None = None
    pad_front: float | None = None
    pad_back: float | None = None
    eval_pad_front: float | None = None
    eval_pad_back: float | None = None
    loaders: tuple[LoaderRows, ...] = ()

    @property
    def learnt(self) -> float | None:
        """The share of the constant answer's loss that training took away; None when nobody knows."""
        if self.guess_loss is None or self.last_loss is None or self.guess_loss <= 0:
            return None
        return 1 - self.last_loss / self.guess_loss


class Grain(Evidence, frozen=True, kw_only=True):
    """How coarse the images are that a model is given in training, over `looks` batches.

    In all of them each image of `height` by `width` pixels consists of squares of `block` by `block` equal pixels; 1 says that
    neighbours differ.
    """

    looks: int
    block: int
    height: int
    width: int
    where: Place | None = None
