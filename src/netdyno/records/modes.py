"""What is known of how a script switches between training and evaluation, and of what its models answer in each."""

from netdyno.records.base import Evidence, Noun, Place


class NormLayer(Noun, frozen=True, kw_only=True):
    """A normalisation layer that keeps running statistics.

    `batches` are the training batches it has seen while it was watched, `momentum` None stands for a plain average.
    `mean_distance` is the middle channel's distance between the running mean and the mean of kept training batches, in
    standard deviations of those; `variance_ratio` is the middle channel's larger variance over the smaller one.
    """

    name: str
    momentum: float | None
    batches: int = 0
    mean_distance: float | None = None
    variance_ratio: float | None = None


class Drift(Noun, frozen=True, kw_only=True):
    """A frozen layer whose running statistics went on moving.

    Over `calls` training calls the middle channel's running mean moved by `mean_moved` of its old standard deviations, and
    its variance became `variance_ratio` times as large or as small.
    """

    name: str
    calls: int
    mean_moved: float
    variance_ratio: float


class ModelModes(Noun, frozen=True, kw_only=True):
    """In which mode one module was called, at top level.

    `training_calls` led to an update, `training_in_eval` of them came in evaluation mode, from update `stuck_from` on without
    a break; `began_training` says that it was in training mode before that, `evaluated_before` that an evaluation came
    between. `evaluations` are calls without gradients in `rounds` (between two updates), `in_training` of them in training
    mode, in `rounds_in_training` rounds; `sampled` of them in evaluation mode with dropout switched on (on purpose).
    `spectral_gain` is how many times larger the norm of `spectral_layer` was in an evaluation than the estimate that spectral
    normalisation divided it by (None: no such layer, or trained since).
    `repeats` is how often the same tensor went in one after the other. `scored` says that a metric or a loss was made of
    what an evaluation gave; `judged` that its training outputs go straight into a loss. `statistics_moved` says that running
    statistics changed during an evaluation.
    """

    model: str
    parameters: int = 0
    dropouts: int = 0
    dropout_p: float = 0.0
    norms: int = 0
    training_calls: int = 0
    training_in_eval: int = 0
    began_training: bool = False
    stuck_from: int | None = None
    evaluated_before: bool = False
    evaluations: int = 0
    in_training: int = 0
    sampled: int = 0
    rounds: int = 0
    rounds_in_training: int = 0
    repeats: int = 0
    scored: bool = False
    judged: bool = False
    statistics_moved: bool = False
    drifts: tuple[Drift, ...] = ()
    frozen_parameters: int = 0
    spectral_gain: float | None = None
    spectral_layer: str = ""
    training_where: Place | None = None
    evaluation_where: Place | None = None


class BareCopy(Noun, frozen=True, kw_only=True):
    """A module that is only evaluated: its weights move, and its `norms` normalisation layers stand as they were made.

    `moved` are the rounds between which its weights moved; `trained_distance` is how far the trained model's running means are
    from those of a new layer, in standard deviations of a new layer.
    """

    model: str
    norms: int
    rounds: int
    moved: int
    trained_distance: float
    where: Place | None = None


class ModeUse(Evidence, frozen=True, kw_only=True):
    """Modes of all modules that were called at top level, over `updates` updates.

    `wrong_axis` counts class choices that were taken along the rows of a model's evaluation output of shape `axis_shape`;
    `hits_compared` numbers that a model gave in evaluation were compared with `==` with true ones that are no whole numbers, and
    `hits_equal` of them were equal; `crossed` comparisons of such choices with labels that met each row with each (`crossed_shapes`).
    """

    updates: int
    models: tuple[ModelModes, ...]
    copies: tuple[BareCopy, ...] = ()
    wrong_axis: int = 0
    axis_shape: tuple[int, ...] = ()
    axis_where: Place | None = None
    hits_compared: int = 0
    hits_equal: int = 0
    hits_where: Place | None = None
    crossed: int = 0
    crossed_shapes: tuple[tuple[int, ...], ...] = ()
    crossed_where: Place | None = None


class ModelConsistency(Noun, frozen=True, kw_only=True):
    """What one model answers to kept inputs when the script is over. Differences are root mean squares in units of the spread
    of its answers over the rows of the batch (in evaluation mode).

    `rows` evaluation rows were kept. `again`: two passes in evaluation mode, `chance` names the random function that ran in
    them. `as_evaluated`: the mode in which the script evaluates it against evaluation mode; `as_evaluated_again`: two passes in
    that mode; `by_norms`: the part of the normalisation layers; `flips`: the share of rows whose largest output changes.
    `in_training`: all of it in training mode against evaluation mode. `own_only` layers normalise by their batch in any mode.
    `loss_eval`, `loss_as_evaluated`: the script's own loss on those rows. `alone`: a row by itself against the same row in
    its batch; `alone_shape` and `row_shape`: shapes of the answer to a batch of one and of one row of a larger batch.
    `single_rows`: the script itself called it with one row. On `batches` kept training batches of `batch_rows` rows,
    `train_loss` is the loss where normalisation takes each batch's own statistics, and `train_loss_eval` the loss with running
    ones (nothing else differs), `worse_batches` of them are worse with running ones. `mixed` is how much more the means of batches differ
    than chance lets them (F ratio, 1 is chance). `accuracy` and `permuted_accuracy`: share of right rows as they are and with
    class names exchanged in the best way, over `classes` classes; `train_accuracy` on the kept training rows.
    """

    model: str
    rows: int = 0
    again: float | None = None
    chance: str | None = None
    as_evaluated: float | None = None
    as_evaluated_again: float | None = None
    by_norms: float | None = None
    flips: float | None = None
    loss_eval: float | None = None
    loss_as_evaluated: float | None = None
    alone: float | None = None
    alone_flips: float | None = None
    alone_shape: tuple[int, ...] | None = None
    row_shape: tuple[int, ...] | None = None
    single_rows: bool = False
    own_only: int = 0
    in_training: float | None = None
    batches: int = 0
    batch_rows: int = 0
    train_loss: float | None = None
    train_loss_eval: float | None = None
    worse_batches: int = 0
    mixed: float | None = None
    norms: tuple[NormLayer, ...] = ()
    classes: int = 0
    accuracy: float | None = None
    permuted_accuracy: float | None = None
    train_accuracy: float | None = None
    compared: int = 0
    changed: int = 0
    input_change: float | None = None
    answer_change: float | None = None
    answer_flips: float | None = None
    loader_where: Place | None = None
    where: Place | None = None


class Consistency(Evidence, frozen=True, kw_only=True):
    """Whether models answer the same question in the same way.

    In each model, `compared` first batches of validation passes held the labels of the first pass, and `changed` of them other
    inputs, by `input_change` of the inputs' spread; `answer_change` and `answer_flips` are what that does to the answers.
    """

    models: tuple[ModelConsistency, ...]


class EvaluationRound(Noun, frozen=True, kw_only=True):
    """Evaluation between two updates: rows that were scored, mean loss over rows, that of the last batch, and the same of accuracy.

    `kept` says that the weights were copied or saved after it, `to_disk` that they went to a file.
    """

    update: int
    batches: int
    rows: int
    loss: float | None = None
    last_loss: float | None = None
    accuracy: float | None = None
    last_accuracy: float | None = None
    kept: bool = False
    to_disk: bool = False


class EvaluatedLoader(Noun, frozen=True, kw_only=True):
    """A loader that is only evaluated on: samples of its data set, rows in a pass, and whether it leaves a rest out."""

    samples: int
    batch_size: int
    rows: int
    drop_last: bool
    shuffled: bool
    own_generator: bool
    passes: int = 1
    where: Place | None = None


class EvaluationRounds(Evidence, frozen=True, kw_only=True):
    """Evaluation round by round (the last ones of a long run), and what was said of it.

    Of `printed` rounds after which numbers were printed, `printed_last` showed the last batch's loss or accuracy and not the
    round's, `printed_mean` the round's own. `restored`
    says that weights were loaded into a trained model after the last update. `kept_compared` says that an `if` which asks for the larger
    of two values stands around the line that keeps weights.
    """

    updates: int
    rounds: tuple[EvaluationRound, ...]
    loaders: tuple[EvaluatedLoader, ...] = ()
    printed: int = 0
    printed_last: int = 0
    printed_mean: int = 0
    printed_where: Place | None = None
    kept_where: Place | None = None
    kept_compared: bool = False
    restored: bool = False
