"""A loader is given a sampler and told to shuffle.

Looks for:  `DataLoader(..., sampler=..., shuffle=True)`, or a `batch_sampler` beside `batch_size`, `shuffle`, `sampler` or
            `drop_last`.
Wrong:      `DataLoader(data, sampler=s, shuffle=True)`: a ValueError.
Right:      the sampler alone; it decides about the order.
Not this:   `shuffle=False`; a `sampler=None`.
"""

from collections.abc import Iterator

from netdyno.lint._base import Hit, lint
from netdyno.lint._python import Python, argument, constant

NAMES = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


@lint(
    fix="leave `shuffle` out: the sampler decides about the order",
    layer="data",
    stage="failure",
    ledger=("C-091",),
    confidence=0.95,
)
def sampler_with_shuffle(source: Python) -> Iterator[Hit]:
    for call in source.calls(*NAMES):
        sampler, batches = argument(call, "sampler", 3), argument(call, "batch_sampler", 4)
        shuffles = constant(argument(call, "shuffle", 2)) is True
        if shuffles and any(each is not None and not _none(each) for each in (sampler, batches)):
            yield Hit(call, "the loader is given a sampler and `shuffle=True`, which it refuses")
        elif batches is not None and not _none(batches) and (constant(argument(call, "batch_size", 1)) or 1) != 1:
            yield Hit(
                call, "the loader is given a batch sampler and a batch size, which it refuses", "leave `batch_size` out"
            )


def _none(node: object) -> bool:
    return getattr(node, "value", ...) is None or type(node).__name__ == "IfExp"


BAD = (
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, 64, sampler=s, shuffle=True)\n",
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, batch_size=64, batch_sampler=s)\n",
)
GOOD = (
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, 64, sampler=s)\n",
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, 64, sampler=None, shuffle=True)\n",
    "from torch.utils.data import DataLoader\nloader = DataLoader(data, 64, sampler=s, shuffle=s is None)\n",
)
