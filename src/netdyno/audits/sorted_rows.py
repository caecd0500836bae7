"""Samples come sorted by their target.

Looks for:  a training split in whose order each class is one run, or numbers rise or fall, and a loader that does not shuffle.
Matters:    batches of one class pull the model from class to class; it forgets the first before it sees the last.
Try:        `shuffle=True` in the training loader; shuffle once before a split by position.
Not this:   sorted files that are shuffled when they are read; series whose order is time.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._columns import target
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Fewer rows are in order by accident, or fit into one batch.
ENOUGH = 40
# Neighbours in order have the same class but where one ends: so many changes are left of all that chance would make.
CHANGES = 0.05
# The rank correlation with the order; a drift with time is far below.
RANKS = 0.98
# Without a loader nobody knows whether it shuffles.
UNKNOWN = 0.5


@audit(stage="data")
def sorted_rows(view: View) -> Finding | None:
    if view.task == "none" or view.train.y is None or np.ndim(view.train.y) > 1:
        raise Skip("there is no target, one per sample")
    if view.notes.get("source") == "folder":
        raise Skip("files in folders are sorted by class because folders are; nobody has said how they are read")
    if len(view.train) < ENOUGH:
        raise Skip(f"fewer than {ENOUGH} training samples")
    shuffles = _shuffles(view)
    y = target(view, view.train)[np.argsort(view.train.indices, kind="stable")]
    known = shuffles is False
    if shuffles or not (_in_runs(y, strictly=not known) if view.task == "classes" else _rising(y)):
        return None
    reads = "and the loader reads them in this order" if known else "whoever reads them must shuffle"
    return wrong(
        f"all {len(y)} training samples are sorted by their target, {reads}",
        fix="shuffle: `DataLoader(train, shuffle=True)`; before a split by position shuffle once",
        because={"changes": float((y[1:] != y[:-1]).sum()), "rows": float(len(y))},
        confidence=0.95 if known else UNKNOWN,
        explains=("label-shift", "missing-class") if known else (),
    )


def _shuffles(view: View) -> bool | None:
    """Whether the declared loader mixes the samples; None where no loader is known."""
    if view.workload is None:
        return None
    loader = view.workload.loader
    # A sampler, whatever it does, is somebody's decision about the order.
    return bool(loader.get("shuffle", True)) or any(
        loader.get(name) is not None for name in ("sampler", "batch_sampler")
    )


def _in_runs(y: Array, *, strictly: bool) -> bool:
    """Whether there are hardly any changes from class to class; `strictly`, whether each class is one run."""
    shares = np.unique(y, return_counts=True)[1] / len(y)
    by_chance = len(y) * float(1 - (shares**2).sum())
    # With one rare class chance makes few changes as well.
    changes = int((y[1:] != y[:-1]).sum())
    return len(shares) > 1 and by_chance >= 10 and changes < (len(shares) if strictly else CHANGES * by_chance)


def _rising(y: Array) -> bool:
    from scipy.stats import spearmanr

    if len(np.unique(y)) < 10:
        return False
    return bool(abs(spearmanr(np.arange(len(y)), y).statistic) > RANKS)


def _sorted(part: Part) -> Part:
    assert part.y is not None
    order = np.argsort(part.y, kind="stable")
    return replace(part, x=np.asarray(part.x)[order], y=part.y[order])


_UNSHUFFLED = SimpleNamespace(loader={"shuffle": False})
_SHUFFLED = SimpleNamespace(loader={})

SICK = (
    lambda: specimen("images", train=_sorted, workload=_UNSHUFFLED),
    lambda: specimen("table", task="numbers", train=_sorted, workload=_UNSHUFFLED),
    lambda: specimen("table", train=_sorted),
)
WELL = (
    lambda: specimen("table"),
    lambda: specimen("table", train=_sorted, workload=_SHUFFLED),
    lambda: specimen("series", workload=_UNSHUFFLED),
)
