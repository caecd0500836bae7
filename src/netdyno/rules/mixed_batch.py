"""What the model says of a sample depends on which others are in the batch.

Looks for:  outputs that change when a batch is halved, in evaluation mode, and how it comes: a recurrent layer that runs
            over the batch, or a reshape that merges it.
Matters:    samples are mixed up in training, and one alone gets another answer than in a batch.
Try:        `batch_first=True`; reshapes that keep the first axis.
Not this:   batch normalisation in evaluation mode, contrastive scores, layouts with time in front.
"""

from netdyno.records.base import Place
from netdyno.records.calls import CallTraces, ModelProbe, Trace
from netdyno.records.diagnosis import Finding
from netdyno.rules._base import rule
from netdyno.rules._calls import FELT, GUESS, LIKELY, NOTHING, call, dim_of, first, probe, traced
from netdyno.rules._remedies import remedy

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


@rule(stage="structure")
def mixed_batch(probe: ModelProbe, traces: CallTraces | None = None) -> Finding | None:
    if (probe.mixing or 0.0) < FELT:
        return None
    how, where = _how(first(traces))
    return Finding(
        says=f"outputs of `{probe.model}` for a sample change by up to {probe.mixing:.2g} standard deviations with the others in its batch{how}",
        layer="optimisation",
        saves=NOTHING,
        because={"mixing": probe.mixing or 0.0},
        fix="keep the batch axis apart: `batch_first=True` for recurrent layers, reshapes that leave the first axis alone",
        where=where or Place(module=probe.model),
        confidence=LIKELY if how else GUESS,
        explains=("batch-dependent-output",),
        remedies=remedy("batch-first") if "time steps" in how else (),
    )


def _how(trace: Trace | None) -> tuple[str, Place | None]:
    if trace is None or not trace.batch:
        return "", None
    for made in trace.calls:
        shape = made.shapes[0] if made.shapes else ()
        if (
            made.name in RECURRENT
            and made.settings.get("batch_first") is False
            and len(shape) == 3
            and shape[0] == trace.batch != shape[1]
        ):
            return f": the {made.name} takes the {shape[0]} samples for time steps", made.where
        if (
            made.name in ("view", "reshape", "flatten")
            and shape[:1] == (trace.batch,)
            and made.shape
            and made.shape[0] % trace.batch
            and made.shape[0] > 1
        ):
            return f": a {made.name} from {shape} to {made.shape} breaks the batch up", made.where
        if made.name in ("softmax", "log_softmax") and dim_of(made) == 0 and made.shape[:1] == (trace.batch,):
            return f": a {made.name} runs over the {trace.batch} samples", made.where
    return "", None


_LSTM = call("lstm", -2, -1, shape=(64, 16, 24), settings={"batch_first": False})
SICK = (
    (probe(mixing=0.4), traced(_LSTM, call("cross_entropy", 0, -2, shape=()))),
    (
        probe(mixing=0.4),
        traced(
            call("view", -2, shape=(128, 64), shapes=((64, 32, 4),)), call("cross_entropy", 0, -2, shape=()), batch=96
        ),
    ),
)
# Nobody feels anything; it could not be asked.
WELL = ((probe(), traced(_LSTM, call("cross_entropy", 0, -2, shape=()))), (probe(mixing=None),))
