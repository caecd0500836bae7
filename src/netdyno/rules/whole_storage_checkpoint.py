"""A file holds a large tensor of which only a small part was to be saved.

Looks for:  saved tensors that are views of storages many times their size.
Matters:    `torch.save` writes whole storages: disks, uploads and loads carry what nobody wanted.
Try:        `.clone()` on the slice before it is saved.
Not this:   several views of one storage that are all saved; slices of small tensors.
"""

from netdyno.records.diagnosis import Finding, Saving
from netdyno.records.evidence import Place
from netdyno.records.shipping import FileSave, SaveUse
from netdyno.rules._base import rule

# Four times is no padding or alignment; less than a megabyte in all is nothing anybody would look for.
TIMES, WASTED = 4.0, 1_000_000


@rule(stage="use")
def whole_storage_checkpoint(use: SaveUse) -> Finding | None:
    worst = max(use.saves, key=_waste, default=None)
    if worst is None or worst.stored < TIMES * worst.bytes or _waste(worst) < WASTED:
        return None
    return Finding(
        says=f"each of {worst.times} saves writes {worst.stored / 1e3:,.0f} kB of storage for tensors of {worst.bytes / 1e3:,.1f} kB: a view takes all it is cut from along",
        layer="memory",
        saves=Saving(low=0.0, high=0.0),
        because={"bytes": float(worst.bytes), "stored_bytes": float(worst.stored), "saves": float(worst.times)},
        fix="save a copy of the slice: `tensor[i].clone()`",
        where=worst.where,
    )


def _waste(save: FileSave) -> int:
    return (save.stored - save.bytes) * save.times


def _save(stored: int, times: int = 10) -> SaveUse:
    return SaveUse(
        updates=0, saves=(FileSave(times=times, bytes=2048, stored=stored, where=Place(file="save.py", line=20)),)
    )


SICK = ((_save(3_680_000),),)
# Whole tensors; a small one.
WELL = ((_save(2048),), (_save(40_000),))
