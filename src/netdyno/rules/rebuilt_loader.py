"""The training loader is constructed anew for every pass.

Looks for:  one line that constructs a training loader at least three times, each used for a single pass, where
            constructing and starting them takes a twentieth of the time or more.
Matters:    workers start, open their files and fill their queues again before the first batch of every epoch.
Try:        construct it once, before the loop over epochs, with `persistent_workers=True` where there are workers.
Not this:   a slow first batch of one loader that is kept, or samples that are slow themselves (see `input-bound`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.rules._base import rule

OFTEN = 3  # two on one line are training and test of one helper, or two folds
WORTH_A_WORD = 0.05  # what the default least gain of a trial asks for


@rule(suggests=("persistent-workers",))
def rebuilt_loader(use: LoaderUse) -> Finding | None:
    rebuilt = [loader for loader in use.loaders if _anew(loader)]
    worst = max(rebuilt, key=_seconds, default=None)
    if worst is None or not use.span_s or _seconds(worst) < WORTH_A_WORD * use.span_s:
        return None
    share = min(1.0, _seconds(worst) / use.span_s)
    return Finding(
        says=f"one line constructs the training loader {worst.built} times, and starting them takes {share:.0%} of the time"
        f" ({_seconds(worst) / (worst.built - 1):.2g} s each){_workers(worst)}",
        layer="data",
        # Constructing is saved for sure; starting as far as workers that stay need not be started again.
        saves=Saving(low=min(share, worst.build_s * (worst.built - 1) / use.span_s), high=share),
        because={
            "built": float(worst.built),
            "build_s": worst.build_s,
            "start_s": worst.start_s,
            "span_s": use.span_s,
            "workers": float(worst.workers),
        },
        fix="construct the loader once, before the loop over epochs, and give it persistent workers if it has any",
        where=worst.where,
        confidence=0.9,  # each pass may be meant to read another data set
    )


def _anew(loader: Loader) -> bool:
    return loader.trains and loader.built >= OFTEN and loader.passes <= loader.built


def _seconds(loader: Loader) -> float:
    """What all but the first construction cost: the first one is needed."""
    # Without workers the first batch is made like any other, and keeping the loader saves nothing of it.
    once = loader.build_s + (loader.start_s if loader.workers else 0.0)
    return once * (loader.built - 1)


def _workers(loader: Loader) -> str:
    return f", {loader.workers} workers every time" if loader.workers else ""


def _use(**fields: object) -> LoaderUse:
    known: dict[str, object] = {
        "where": Place(file="train.py", line=30),
        "dataset": "Photos",
        "trains": True,
        "iterable": False,
        "batch_size": 32,
        "batches_per_pass": 32,
        "sampler": "RandomSampler",
        "own_order": False,
        "ordered": False,
        "workers": 2,
        "built": 8,
        "passes": 8,
        "start_s": 0.25,
    }
    return LoaderUse(loaders=(Loader(**(known | fields)),), span_s=10.0)  # type: ignore[arg-type]


# Two workers for every epoch; no workers, but a data set that is read at construction.
SICK = ((_use(),), (_use(workers=0, build_s=0.3, start_s=0.0),))
# Constructed once and iterated often; train and test from one helper; cheap to construct; a test loader.
WELL = (
    (_use(built=1),),
    (_use(built=2, passes=2),),
    (_use(workers=0, build_s=0.0001, start_s=0.4),),
    (_use(trains=False),),
)
