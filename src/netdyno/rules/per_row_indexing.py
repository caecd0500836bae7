"""Tensors are taken apart row by row and put together again into batches.

Looks for:  a training loader over a `TensorDataset` with batches of 128 rows or more, whose batches take half of the time.
Matters:    each row is indexed, checked and stacked by itself, in Python: a hundred times the cost of one index for all.
Try:        `for rows in torch.randperm(n).split(batch): x[rows], y[rows]`, or `batch_size=None` with a batch sampler.
Not this:   samples that are read or transformed one by one, which have to be; small batches, where it is a few microseconds.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Loader, LoaderUse, Place, StepTimeline
from netdyno.records.measured import Split
from netdyno.rules._base import rule

ROWS = 128
# Below half of the time a batch is as long in the making as its update, and a loader's comfort is worth that.
WORTH_A_WORD = 0.5
# What indexing whole batches leaves of it.
LEFT = 0.1


@rule(suggests=("tensor-slicing",))
def per_row_indexing(timeline: StepTimeline, use: LoaderUse) -> Finding | None:
    share = timeline.share("data", "collate")
    worst = max((one for one in use.loaders if _rows(one)), key=lambda one: one.batches, default=None)
    if worst is None or share < WORTH_A_WORD:
        return None
    return Finding(
        says=f"making batches takes {share:.0%} of the time: all data are tensors already, and each batch indexes and stacks"
        f" {worst.batch_size} single rows of them",
        layer="data",
        saves=Saving(low=share / 2, high=share * (1 - LEFT)),
        because={"share": share, "rows": float(worst.batch_size or 0)},
        fix="index whole batches: `for rows in torch.randperm(n).split(batch_size): x[rows]`",
        where=worst.where,
        confidence=0.9,
        explains=("input-bound", "idle-overlap", "costly-line"),
    )


def _rows(one: Loader) -> bool:
    return one.trains and one.dataset == "TensorDataset" and not one.workers and (one.batch_size or 0) >= ROWS


def _case(data: float, **fields: object) -> tuple[StepTimeline, LoaderUse]:
    known: dict[str, object] = {
        "where": Place(file="train.py", line=11),
        "dataset": "TensorDataset",
        "trains": True,
        "iterable": False,
        "batch_size": 1000,
        "batches_per_pass": 30,
        "sampler": "RandomSampler",
        "ordered": False,
        "own_order": False,
        "workers": 0,
        "batches": 150,
    }
    phases = {"data": Split(running=data), "forward": Split(running=0.001)}
    timeline = StepTimeline(steps=100, step=Split(running=data + 0.001), phases=phases)
    return timeline, LoaderUse(loaders=(Loader(**(known | fields)),), span_s=5.0)  # type: ignore[arg-type]


SICK = (_case(0.01),)
# A small data set with a wait of one per cent; images that are decoded; small batches.
WELL = (_case(0.00001), _case(0.01, dataset="Photos"), _case(0.01, batch_size=32))
