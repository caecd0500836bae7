"""What one forward pass and its loss called, what fed what, what the losses were given, and the first value that was no number."""

import msgspec

from netdyno.records.base import Evidence, Noun, Place

# Inputs of a call that no earlier call made.
WEIGHT, DATA = -1, -2
# Calls that only move values, or keep which is largest: what comes out means what went in.
MOVES = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "permute",
        "transpose",
        "t",
        "contiguous",
        "clone",
        "to",
        "float",
        "double",
        "half",
        "type_as",
        "__getitem__",
        "select",
        "narrow",
        "expand",
        "expand_as",
        "view_as",
        "reshape_as",
        "movedim",
        "swapaxes",
        "unbind",
        "chunk",
        "split",
        "cat",
        "stack",
        "mT",
        "T",
        "detach",
        "requires_grad_",
        "squeeze_",
        "unsqueeze_",
        "index_select",
        "gather",
        "masked_select",
    ]
)
# Calls that bend: without one of these, layers upon layers are one layer.
BENDS = frozenset(
    [
        "relu",
        "relu_",
        "leaky_relu",
        "leaky_relu_",
        "gelu",
        "silu",
        "mish",
        "elu",
        "elu_",
        "selu",
        "selu_",
        "celu",
        "rrelu",
        "prelu",
        "softplus",
        "softsign",
        "tanh",
        "tanh_",
        "sigmoid",
        "sigmoid_",
        "logsigmoid",
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "relu6",
        "softmax",
        "log_softmax",
        "softmin",
        "gumbel_softmax",
        "glu",
        "threshold",
        "clamp",
        "clamp_",
        "clip",
        "abs",
        "pow",
        "square",
        "sqrt",
        "exp",
        "log",
        "sin",
        "cos",
        "atan",
        "maximum",
        "minimum",
        "max",
        "min",
        "where",
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        "adaptive_max_pool2d",
        "layer_norm",
        "group_norm",
        "rms_norm",
        "instance_norm",
        "normalize",
        "gru",
        "lstm",
        "rnn_tanh",
        "rnn_relu",
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "tanhshrink",
        "softshrink",
        "hardshrink",
        "erf",
        "heaviside",
        "sign",
        "round",
        "local_response_norm",
        "div",
        "__truediv__",
        "logsumexp",
        "norm",
        "cosine_similarity",
        "cdist",
        "bilinear",
        "einsum",
        "grid_sample",
    ]
)


class TracedCall(Noun, frozen=True, kw_only=True):
    """One call of a function of torch, as it happened.

    `inputs` are the calls that made its tensors, in their order (-1 a weight, -2 data that no call made), `shapes` theirs.
    `settings` are its other arguments, as far as they are numbers, words or flags. The statistics are over the values that it
    gave: `zeros` the share of zeros, `dead` the share of units that were zero for the whole batch, `finite` whether all were
    numbers; `edge` that an input stood where the function's slope is infinite (sqrt of 0, log of 0, 0 as a divisor).
    """

    name: str
    where: Place | None = None
    inputs: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    settings: dict[str, float | str | bool | None] = msgspec.field(default_factory=dict)
    mean: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    zeros: float | None = None
    dead: float | None = None
    finite: bool = True
    edge: bool = False
    grad: bool = True


class Trace(Noun, frozen=True, kw_only=True):
    """The calls of one forward pass in their order, from the first call of a model to the backward pass.

    `root` is the call whose result the backward pass began at; `missed` were made after the last that was kept. `batch` is
    the first length of what the model was given.
    """

    update: int
    calls: tuple[TracedCall, ...]
    root: int | None = None
    missed: int = 0
    batch: int | None = None

    def origin(self, number: int) -> int:
        """The call that made the values of this one, before they were only moved; negative where none did."""
        for _ in range(len(self.calls) + 1):
            if number < 0 or number >= len(self.calls):
                return number if number < 0 else DATA
            call = self.calls[number]
            if call.name not in MOVES or not call.inputs:
                return number
            number = call.inputs[0]
        return DATA

    def before(self, number: int | None) -> frozenset[int]:
        """The calls that this one rests on, itself included."""
        seen: set[int] = set()
        left = [number] if number is not None else []
        while left:
            at = left.pop()
            if at is None or at < 0 or at >= len(self.calls) or at in seen:
                continue
            seen.add(at)
            left.extend(self.calls[at].inputs)
        return frozenset(seen)

    def users(self, number: int) -> tuple[int, ...]:
        """The calls that were given what this one made."""
        return tuple(at for at, call in enumerate(self.calls) if number in call.inputs)


class CallTraces(Evidence, frozen=True, kw_only=True):
    """A few traced updates of a script, the first in front. `models` were called at top level in them, `optimizers` step."""

    traces: tuple[Trace, ...]
    models: int = 1
    optimizers: int = 1


class LossUse(Noun, frozen=True, kw_only=True):
    """The calls of one loss function on one line, training and evaluation apart, over the calls that were looked at.

    Shapes, dtypes and `reduction` are those of the first; low, high and mean are over all. `unit_rows` is the least share of rows
    of non-negative numbers that sum to 1, `log_rows` the share whose exponentials do; None where there are no rows of classes.
    `ignored` is the largest share of targets that the loss leaves out, `padding` the largest share of targets that are one same
    id at the ends of their rows. `common` is the share of the most frequent whole target. `classes` are the units of the input, `lowest`/`highest` the extremes of integer targets.
    `shifted` says how targets follow from the ids that the model was given: same, next, or nothing.
    """

    name: str
    where: Place | None
    training: bool
    times: int = 1
    input_shape: tuple[int, ...] = ()
    target_shape: tuple[int, ...] = ()
    input_dtype: str = ""
    target_dtype: str = ""
    reduction: str = "mean"
    input_low: float | None = None
    input_high: float | None = None
    target_low: float | None = None
    target_high: float | None = None
    whole_targets: bool = False
    unit_rows: float | None = None
    log_rows: float | None = None
    classes: int | None = None
    ignored: float = 0.0
    ignores: int | None = None
    all_ignored: int = 0
    padding: float = 0.0
    pad: int | None = None
    first: float | None = None
    last: float | None = None
    lowest: float | None = None
    at_low: float = 0.0
    at_high: float = 0.0
    distinct: int | None = None
    common: float = 0.0
    shifted: str = ""


class LossCalls(Evidence, frozen=True, kw_only=True):
    """What the losses of a script were given.

    `graphless` are backward passes that began at a value which no graph leads to, `passes` all that were looked at; `graph_where` is
    the line. `crossed` are updates of an optimizer whose gradients hold what another one's loss left there, of `steps` looked at.
    """

    losses: tuple[LossUse, ...] = ()
    graphless: int = 0
    passes: int = 0
    graph_where: Place | None = None
    crossed: int = 0
    steps: int = 0
    crossed_where: Place | None = None


class ModelProbe(Evidence, frozen=True, kw_only=True):
    """What a trained model does with one batch of its own when it is asked once more, in evaluation mode, at the end.

    `outputs` is the shape of what it gives. `repeat` is the largest difference between two equal calls, `mixing` that
    between samples alone in half a batch and in the whole one, `padding` that between rows with and without their padding;
    each in standard deviations of the outputs, None where it could not be asked. `dropout_where` is a dropout that acts in
    evaluation mode, `dropout_said` that its line says so on purpose. `later` and `earlier`: the largest change of outputs at
    a position when only ids after, or before, it change. `order` the change when inputs change places. `linear` is the
    deviation from an affine function. `weighted` counts layers with weights, `narrow` that one of them is a bottleneck, `lengths` the
    different lengths of the batches that were looked at.
    Of `parameters` tensors, `replaced` are not those any more that a wrapper for several processes averages.
    """

    model: str = ""
    outputs: tuple[int, ...] = ()
    repeat: float | None = None
    mixing: float | None = None
    padding: float | None = None
    pad: int | None = None
    dropout_where: Place | None = None
    dropout_share: float = 0.0
    dropout_said: bool = False
    later: float | None = None
    earlier: float | None = None
    order: float | None = None
    attention: bool = False
    recurrent: bool = False
    linear: float | None = None
    weighted: int = 0
    narrow: bool = False
    lengths: int = 0
    replaced: int = 0
    parameters: int = 0


class NonFinite(Evidence, frozen=True, kw_only=True):
    """The first NaN or infinity of a run, and where it came from.

    `stage` is "input" (a sample held it), "transform" (it was made from finite data before the model), "weights" (they held it
    before the update), "forward" (a call made it of numbers), "backward" (the loss was a number, its gradient was not) or "loss".
    `update` counts from 1. `call` is the function, `sample` the row and `feature` the place within. `grew` is how much the
    largest weight grew over the updates before, `loss_before` the last loss that was a number. `parameter` names the first one
    with a bad gradient. `bad_updates` are updates after it in which the loss was no number either.
    """

    stage: str
    update: int
    where: Place | None = None
    call: str = ""
    kind_of: str = ""
    sample: int | None = None
    feature: tuple[int, ...] = ()
    samples: int = 0
    loss: float | None = None
    loss_before: float | None = None
    first_loss: float | None = None
    parameter: str = ""
    weights_high: float | None = None
    weights_high_first: float | None = None
    input_high: float | None = None
    ignored: bool = False
    persists: bool = True


class CustomGradient(Noun, frozen=True, kw_only=True):
    """A function with a gradient written by hand, asked with the arguments of one of its calls, in double precision.

    `where` is its backward, `applied` a line that uses it. Of `tested` numbers of its inputs that its result rests on, `wrong` have
    another gradient than slope; `ratio` is the median gradient over slope of those, between `ratio_low` and `ratio_high`. `flat` numbers
    have a gradient though the result does not rest on them, and `passes_on` that the result is an input times a number: both are
    written for the sake of their gradient.
    """

    name: str
    where: Place | None
    applied: Place | None = None
    tested: int = 0
    wrong: int = 0
    flat: int = 0
    passes_on: bool = False
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


class CustomGradients(Evidence, frozen=True, kw_only=True):
    """Functions of the user's with gradients written by hand."""

    functions: tuple[CustomGradient, ...]
