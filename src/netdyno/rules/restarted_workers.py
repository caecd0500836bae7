"""Loader workers are started anew for every epoch.

Looks for:  a training loader with workers that end with each pass, three passes or more, where starting and ending them, or
            waiting for the first batch of a pass, takes a tenth of the time.
Matters:    each start forks or spawns a process, which opens its files and fills its queue again.
Try:        `persistent_workers=True`.
Not this:   long epochs, where a start is nothing; a loader that is constructed anew (see `rebuilt-loader`).
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place
from netdyno.records.growth import Restarted, WorkerStarts
from netdyno.rules._base import rule
from netdyno.rules._remedies import remedy

PASSES = 3
WORTH_A_WORD = 0.10  # below a tenth of the time, noise and cure cost about the same


@rule(suggests=("persistent-workers",))
def restarted_workers(use: LoaderUse, starts: WorkerStarts | None = None) -> Finding | None:
    anew = [one for one in use.loaders if _anew(one)]
    worst = max(anew, key=lambda one: _share(one, use, starts), default=None)
    share = _share(worst, use, starts) if worst is not None else 0.0
    if worst is None or share < WORTH_A_WORD:
        return None
    timed = _timed(worst, starts)
    each = timed.seconds / timed.starts if timed is not None else worst.start_s
    what = "starting and ending them" if timed is not None else "waiting for their first batch"
    return Finding(
        says=f"{worst.workers} loader workers are started again for each of {worst.passes} passes, and {what}"
        f" takes {share:.0%} of the time ({each:.2g} s each)",
        layer="data",
        # What was timed goes away with the restarts; a pass's first batch is waited for by workers that stay, too.
        saves=Saving(low=share / 2 if timed is not None else share / 3, high=share),
        because={
            "passes": float(worst.passes),
            "start_s": each,
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


def _timed(one: Loader, starts: WorkerStarts | None) -> Restarted | None:
    """What starting and ending the workers of this loader took, where it was timed."""
    known = starts.loaders if starts is not None and starts.span_s else ()
    return next((each for each in known if each.where == one.where and each.starts >= PASSES), None)


def _share(one: Loader, use: LoaderUse, starts: WorkerStarts | None) -> float:
    timed = _timed(one, starts)
    if timed is not None and starts is not None:
        return min(1.0, timed.seconds * (timed.starts - 1) / timed.starts / starts.span_s)
    return min(1.0, one.start_s * (one.passes - 1) / use.span_s) if use.span_s else 0.0


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


def _starts(seconds: float) -> WorkerStarts:
    where = Place(file="train.py", line=30)
    return WorkerStarts(loaders=(Restarted(where=where, workers=2, starts=20, seconds=seconds),), span_s=6.0)


SICK = ((_use(),), (_use(start_s=0.008), _starts(2.5)))
# Workers that stay; none; few passes; quick starts, by the wait and by the clock.
WELL = (
    (_use(persistent=True),),
    (_use(workers=0),),
    (_use(passes=2),),
    (_use(start_s=0.001),),
    (_use(start_s=0.008), _starts(0.2)),
)
