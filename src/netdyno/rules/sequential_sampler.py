"""Training reads its samples in the same order every time.

Looks for:  a loader that trains, over a data set with indices, whose samples come in the order of the data set,
            several batches to a pass.
Matters:    batches are the same in each epoch; where the data are sorted, by class or by source, each of them teaches
            one thing and unlearns the others.
Try:        `shuffle=True` for training; a generator of its own keeps it repeatable.
Not this:   a full batch, a stream, an order that the author passed on purpose, or windows of a text or a time series.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy, remedy_at

# Batches of one class each prove harm. Mixed batches only repeat; without labels the order may have a meaning.
PROVEN, REPEATED, UNKNOWN = 1.0, 0.8, 0.5


@rule(suggests=(), stage="data")
def sequential_sampler(use: LoaderUse) -> Finding | None:
    fixed = [loader for loader in use.loaders if _in_order(loader)]
    if not fixed:
        return None
    worst = min(fixed, key=lambda loader: (loader.labels_vary is not False, loader.labels_vary is None))
    return Finding(
        says=f"training reads `{worst.dataset}` in its own order each time, {worst.batches_per_pass} batches to a pass{_labels(worst)}",
        layer="generalisation",
        saves=Saving(low=0.0, high=0.0),  # it costs quality, not time
        because={"batches_per_pass": float(worst.batches_per_pass or 0), "batch_size": float(worst.batch_size or 0)},
        fix="pass `shuffle=True` to the training loader, unless the order itself is what is learnt",
        where=worst.where,
        confidence=_confidence(worst),
        remedies=remedy_at(worst.where, "shuffle") or remedy("shuffle"),
    )


def _in_order(loader: Loader) -> bool:
    if not loader.trains or loader.iterable or loader.own_order or loader.sequence:
        return False
    # Whoever takes only the first batch of each pass trains on that batch, and its order means nothing.
    first_only = 0 < loader.batches <= loader.passes
    return loader.ordered and (loader.batches_per_pass or 0) > 1 and not first_only


def _labels(loader: Loader) -> str:
    return ", and the first batches hold one class each" if loader.labels_vary is False else ""


def _confidence(loader: Loader) -> float:
    if loader.labels_vary is None or loader.own_order is None:
        return UNKNOWN
    return REPEATED if loader.labels_vary else PROVEN


def _loader(**fields: object) -> Loader:
    known: dict[str, object] = {
        "where": Place(file="train.py", line=88),
        "dataset": "MNIST",
        "trains": True,
        "iterable": False,
        "batch_size": 64,
        "batches_per_pass": 938,
        "sampler": "SequentialSampler",
        "own_order": False,
        "ordered": True,
        "workers": 0,
    }
    return Loader(**(known | fields))  # type: ignore[arg-type]


def _use(*loaders: Loader) -> LoaderUse:
    return LoaderUse(loaders=loaders, span_s=10.0)


# Sorted by class; mixed, but always the same batches; a data set of which no labels were seen (a suspicion).
SICK = (
    (_use(_loader(labels_vary=False)),),
    (_use(_loader(labels_vary=True)),),
    (_use(_loader()),),
)
# Shuffled; a test loader beside it; a full batch; a stream; an author's own sampler; windows of a text; one batch for all updates.
WELL = (
    (
        _use(
            _loader(ordered=False, sampler="RandomSampler"),
            _loader(trains=False, labels_vary=False),
        ),
    ),
    (_use(_loader(batches_per_pass=1, labels_vary=True)),),
    (_use(_loader(iterable=True, batches_per_pass=None)),),
    (_use(_loader(own_order=True, sampler="BucketSampler")),),
    (_use(_loader(sequence=True)),),
    (_use(_loader(labels_vary=True, batches=1, passes=1)),),
)
