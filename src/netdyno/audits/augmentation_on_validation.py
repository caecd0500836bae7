"""A random transform runs on the samples that are judged.

Looks for:  validation samples that differ when they are read twice.
Matters:    the score is of other samples each time: a better epoch may be a luckier one, and hard transforms make it too low.
Try:        give validation its own data set, with what is not random (resizing, scaling) and nothing else.
Not this:   test-time augmentation that averages over transforms, which belongs into the model's answer.
"""

from typing import Any

import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from netdyno.audits._base import Skip, View, audit, wrong
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Exhibit, Finding
from netdyno.targets.samples import kept_randomness, same, spread
from netdyno.targets.workload import Workload, seed_everything

# A transform that is applied to one sample in ten shows among 32 with a chance of 97 %.
LOOKS = 32


@audit()
def augmentation_on_validation(view: View) -> Finding | None:
    if view.workload is None:
        raise Skip("only a declared workload reads a sample twice")
    _, val = view.workload.datasets()
    if isinstance(val, IterableDataset):
        raise Skip("the validation data can only be read in order")
    chosen = spread(len(val), LOOKS)
    changed = [index for index in chosen if not _steady(val, index)]
    if not changed:
        return None
    return wrong(
        f"{len(changed)} of {len(chosen)} validation samples differ when they are read twice: a random transform runs on them",
        fix="give validation its own data set without the random transforms",
        because={"changed": float(len(changed)), "looked_at": float(len(chosen))},
        exhibits=tuple(
            Exhibit(split="val", index=index, says="other values at the second reading") for index in changed
        ),
    )


def _steady(val: Any, index: int) -> bool:
    with kept_randomness():
        # A coin under one seed falls alike for every sample: each gets seeds of its own.
        seed_everything(2 * index)
        first = val[index]
        seed_everything(2 * index + 1)
        return same(first, val[index])


class _Shaken(Dataset[Any]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.full((3,), float(index)) + torch.rand(3), index % 2


def _workload(val: Any) -> View:
    train = TensorDataset(torch.rand(80, 3), torch.arange(80) % 2)
    return specimen(
        "table", workload=Workload(model=lambda: torch.nn.Linear(3, 2), train=lambda: train, val=lambda: val)
    )


SICK = (lambda: _workload(_Shaken()),)
WELL = (lambda: _workload(TensorDataset(torch.rand(40, 3), torch.arange(40) % 2)), lambda: specimen("images"))
