"""The same raw record comes to another input in the service than in training.

Looks for:  `prepare` and `prepare_in_training` on the same raw records: channels in another order, another scale or normalisation, another
            layout, another size, padding on the other side.
Matters:    the module was judged on one kind of input and answers on another; nothing of that shows in any score here (ledger A-079,
            A-252; fault bench T08, P09).
Try:        one function for both, with its numbers kept beside the weights.
Not this:   rounding; random transforms of training, which `prepare_in_training` should leave out.
"""

from typing import Any

import torch
from torch import Tensor

from netdyno.gates._base import Candidate, failed, item, passed, plural, unseen
from netdyno.gates._specimens import candidate, pictures
from netdyno.records.deployment import GateCheck
from netdyno.verdicts.preprocessing import MOST, compared


@item
def serving_preprocess(candidate: Candidate) -> GateCheck:
    release = candidate.release
    if release.raw is None or release.prepare is None or release.prepare_in_training is None:
        return unseen("it takes `raw`, `prepare` and `prepare_in_training`")
    records = list(release.raw())[:MOST]
    if not records:
        return unseen("`raw` gives no record")
    mine = [_parts(release.prepare_in_training(one)) for one in records]
    theirs = [_parts(release.prepare(one)) for one in records]
    if any(len(one) != len(other) for one, other in zip(mine, theirs, strict=True)):
        return failed(
            f"a record comes to {len(mine[0])} inputs in training and {len(theirs[0])} in the service",
            fix="use one function for both",
            records=float(len(records)),
        )
    worst = 0.0
    for at in range(len(mine[0])):
        found = compared([one[at] for one in mine], [one[at] for one in theirs])
        worst = max(worst, found.worst)
        if found.kinds:
            return failed(
                f"the same record comes to another input in the service than in training: {' and '.join(found.kinds)}{found.says}; values "
                f"differ by up to {found.worst:.4g}",
                fix="use one function for training and service, and keep its numbers with the weights",
                worst=found.worst,
                records=float(len(records)),
            )
    return passed(f"{plural(len(records), 'raw record')} come to the same inputs both ways", worst=worst)


def _parts(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _colours() -> list[Tensor]:
    chance = torch.Generator().manual_seed(0)
    patches = torch.rand(12, 3, 4, 4, generator=chance)
    smooth = torch.nn.functional.interpolate(patches, size=(16, 16), mode="bilinear")
    return list((255 * smooth * torch.tensor([1.0, 0.7, 0.4]).view(3, 1, 1)).round())


def _trained(record: Tensor) -> Tensor:
    return record / 255


def _served(how: str) -> Candidate:
    ways = {
        "same": _trained,
        "bgr": lambda one: one.flip(0) / 255,
        "brg": lambda one: one[[2, 0, 1]] / 255,
        "bytes": lambda one: one,
        "last": lambda one: one.permute(1, 2, 0) / 255,
        "rounded": lambda one: (one / 255).half().float(),
    }
    return candidate(raw=_colours, prepare=ways[how], prepare_in_training=_trained)


def _texts() -> list[list[int]]:
    return [[3, 7, 5], [4, 9], [8, 2, 6, 5], [1]]


def _padded(ids: list[int], *, left: bool) -> Tensor:
    pad = [0] * (6 - len(ids))
    return torch.tensor([*pad, *ids] if left else [*ids, *pad])


SICK = (
    lambda: _served("bgr"),
    lambda: _served("brg"),
    lambda: _served("bytes"),
    lambda: _served("last"),
    lambda: candidate(
        raw=_texts,
        prepare=lambda ids: _padded(ids, left=True),
        prepare_in_training=lambda ids: _padded(ids, left=False),
    ),
)
WELL = (
    lambda: _served("same"),
    lambda: _served("rounded"),
    lambda: candidate(
        raw=lambda: list(pictures()[0]), prepare=lambda one: 1.0 * one, prepare_in_training=lambda one: one
    ),
)
