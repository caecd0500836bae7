"""Loader workers are started anew for every epoch.

Looks for:  a training loader with workers that end with each pass, three passes or more, where waiting for the first
            batch of a pass takes a tenth of the time.
Matters:    each start forks or spawns a process, which opens its files and fills its queue again.
Try:        `persistent_workers=True`.
Not this:   long epochs, where a start is nothing; a loader that is constructed anew (see `rebuilt-loader`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

PASSES = 3
WORTH_A_WORD = 0.10  # below a tenth of the time, noise and cure cost about the same


@rule(suggests=("persistent-workers",))
def restarted_workers(use: LoaderUse) -> Finding | None:
    worst = max((one for one in use.loaders if _anew(one)), key=_seconds, default=None)
    share = min(1.0, _seconds(worst) / use.span_s) if worst is not None and use.span_s else 0.0
    if worst is None or share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"{worst.workers} loader workers are started again for each of {worst.passes} passes, and waiting for their first batch"
        f" takes {share:.0%} of the time ({worst.start_s:.2g} s each)",
        layer="data",
        saves=Saving(low=share / 3, high=share),
        because={
            "passes": float(worst.passes),
            "start_s": worst.start_s,
            "workers": float(worst.workers),
            "span_s": use.span_s,
        },
        fix="give the loader `persistent_workers=True`",
        where=worst.where,
        confidence=0.9,
        explains=("input-bound", "idle-overlap"),
        remedies=remedy("persistent-workers"),
    )


def _anew(one: Loader) -> bool:
    return bool(one.workers) and not one.persistent and one.built == 1 and one.passes >= PASSES


def _seconds(one: Loader) -> float:
    return one.start_s * (one.passes - 1)


def _use(**fields: object) -> LoaderUse:
    known: dict[str, object] = {
        "where": Place(file="train.py", line=30),
        "dataset": "Digits",
        "trains": True,
        "iterable": False,
        "batch_size": 64,
        "batches_per_pass": 20,
        "sampler": "RandomSampler",
        "ordered": False,
        "own_order": False,
        "workers": 2,
        "passes": 20,
        "start_s": 0.15,
    }
    return LoaderUse(loaders=(Loader(**(known | fields)),), span_s=6.0)  # type: ignore[arg-type]


SICK = ((_use(),),)
WELL = ((_use(persistent=True),), (_use(workers=0),), (_use(passes=2),), (_use(start_s=0.001),))
