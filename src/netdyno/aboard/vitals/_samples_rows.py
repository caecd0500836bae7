"""From tensors of a call to rows: a print for each, its label, what the model said, and a sample of its numbers."""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..facts import _tensors
from ..frames import Line

if TYPE_CHECKING:
    from .samples import Seen

# Columns that go into a print, and columns that are kept to compare rows by; evenly spaced ones stand for the others.
PRINTED, KEPT = 1024, 256
# Rows whose numbers are kept on each side.
KEPT_ROWS = 6000
# Of the data sets behind loaders so many are kept to the end, for a look at single samples.
DATASETS = 4


class Rows:
    """The rows of one call."""

    __slots__ = (
        "bad", "floating", "group", "joint", "labels", "largest", "late", "loader", "loss", "loss_name", "module", "outputs",
        "pads", "passes", "predictions", "prints", "role", "site", "update", "weighted", "whole", "width", "x",
    )  # fmt: skip
    role: str
    update: int
    group: int  # its backward pass
    joint: bool  # with other calls
    site: Any
    module: int
    late: bool
    loader: int | None
    passes: int
    loss: float | None
    loss_name: str
    weighted: bool
    width: int
    floating: bool
    prints: Any
    x: Any
    labels: Any
    whole: bool  # labels are classes
    predictions: Any
    outputs: int | None
    largest: float | None
    bad: tuple[list[int], int, int] | None
    pads: tuple[int, float] | None


class Book:
    """All rows that were read."""

    def __init__(self) -> None:
        self.rows = {"training": 0, "evaluation": 0}
        self.kept = {"training": 0, "evaluation": 0}
        self.calls: list[Rows] = []
        self.longest: dict[Any, int] = {}  # rows that a site evaluated between two updates, at most

    def read(self, waiting: Iterable["Seen"], late: bool = False) -> None:
        """Calls become rows; those whose tensors were written to since are left out."""
        for seen in waiting:
            if any(version(x) != before for x, before in zip(seen.xs, seen.versions, strict=True)):
                continue
            with contextlib.suppress(RuntimeError):  # storage that was freed or moved
                self.calls.append(self._rows(seen, late))
            seen.xs, seen.batch, seen.target, seen.output = [], None, None, None

    def _rows(self, seen: "Seen", late: bool) -> Rows:
        told = Rows()
        table, told.floating = _table(seen.xs)
        count, told.width = table.shape
        told.role, told.update, told.site, told.module = seen.role, seen.update, seen.site, seen.module
        told.joint, told.group, told.passes = seen.joint, seen.group, seen.passes
        told.loss_name, told.weighted, told.late = seen.loss_name, seen.weighted, late
        told.loader = seen.loader.number if seen.loader is not None else None
        told.prints = prints(table)
        told.bad = _bad(table) if told.floating else None
        told.largest = float(table.abs().max()) if table.numel() and told.bad is None else None
        told.pads = None if told.floating else _pads(seen.xs[0])
        told.labels, told.whole = _labels(seen, count)
        told.predictions, told.outputs = _predictions(seen, count)
        told.loss = float(seen.loss) if seen.loss is not None else None
        told.x = None
        # Of evaluation late rows are as good as early ones.
        if self.kept[seen.role] < KEPT_ROWS and (not late or seen.role == "evaluation"):
            told.x = _columns(table, KEPT).float().clone()
            self.kept[seen.role] += count
        return told


class LoaderBook:
    """How a loader was made, as far as its rows are concerned."""

    def __init__(self, known: Any) -> None:
        self.known = known
        loader = known.ref()
        self.line: Line = known.line
        self.dataset = getattr(loader, "dataset", None) if known.number < DATASETS else None
        self.root = id(_root(getattr(loader, "dataset", None)))
        self.size = _size(getattr(loader, "dataset", None))
        self.workers = int(getattr(loader, "num_workers", 0) or 0)
        self.persistent = bool(getattr(loader, "persistent_workers", False))
        self.begins = getattr(loader, "worker_init_fn", None)
        sampler = getattr(loader, "sampler", None)
        for _ in range(4):
            sampler = getattr(sampler, "sampler", sampler)
        self.sampler = type(sampler).__name__
        self._sampler = loader and sampler if hasattr(sampler, "set_epoch") and hasattr(sampler, "epoch") else None
        self.epochs: set[int] = set()
        self.seen_pass = 0
        self.ranks = _ranks()

    def came(self, known: Any) -> None:
        """A batch came; at a new pass the sampler's epoch is noted."""
        if known.iterations != self.seen_pass:
            self.seen_pass = known.iterations
            if self._sampler is not None and len(self.epochs) < 64:
                self.epochs.add(int(self._sampler.epoch))

    @property
    def epoch_set(self) -> bool | None:
        """Whether somebody told the sampler that a new epoch begins; None without such a sampler."""
        return None if self._sampler is None or self.seen_pass < 2 else len(self.epochs) > 1


def version(tensor: Any) -> int:
    """Counts what was written to a tensor in place; 0 for those of inference mode, which have no count."""
    return 0 if tensor.is_inference() else tensor._version


def prints(table: Any) -> Any:
    """One whole number for each row: equal rows have equal ones, and other rows practically never."""
    import torch

    bits = _columns(table, PRINTED)
    if bits.is_floating_point():
        # The same bits for 0 and -0; sums of whole numbers, unlike those of reals, depend on nothing else.
        bits = (bits.to(torch.float32) + 0.0).contiguous().view(torch.int32)
    bits = bits.to(torch.int64)
    factors = torch.arange(1, bits.shape[1] + 1, dtype=torch.int64) * -7046029254386353131
    factors = (factors ^ (factors >> 29)) * -4658895280553007687 | 1
    mixed = bits * factors
    mixed = (mixed ^ (mixed >> 31)) * 7809847782465536322 + mixed
    return mixed.sum(1)


def _table(xs: list[Any]) -> tuple[Any, bool]:
    """All that goes in, a row per sample; real numbers only when the first tensor has some."""
    import torch

    floating = xs[0].is_floating_point()
    chosen = [x for x in xs if x.is_floating_point() == floating and not x.is_complex()]
    flat = [x.reshape(x.shape[0], -1) if x.dim() > 1 else x.reshape(-1, 1) for x in chosen]
    flat = [_columns(x, 4 * PRINTED) for x in flat]
    whole = flat[0] if len(flat) == 1 else torch.cat(flat, 1)
    return torch._C.TensorBase.cpu(whole), floating


def _columns(table: Any, most: int) -> Any:
    width = table.shape[1]
    if width <= most:
        return table
    return table[:, :: -(-width // most)]


def _bad(table: Any) -> tuple[list[int], int, int] | None:
    """Rows with a number that is none, the first column of the first of them, and how many rows there are."""
    fine = table.isfinite()
    if bool(fine.all()):
        return None
    rows = (~fine.all(1)).nonzero().flatten()
    column = int((~fine[rows[0]]).nonzero()[0])
    return rows[:16].tolist(), column, len(rows)


def _pads(x: Any) -> tuple[int, float] | None:
    """The id that ends most rows of a text, and the share of positions it fills behind the last other id."""
    if x.dim() != 2 or x.shape[1] < 8 or x.shape[0] < 2:
        return None
    last = int(x[:, -1].mode().values)
    behind = (x == last).long().flip(1).cumprod(1)
    return last, float(behind.sum()) / x.numel()


def _labels(seen: "Seen", count: int) -> tuple[Any, bool]:
    """One label per row, and whether it is a class."""
    told = seen.target
    target = told[0] if told is not None and version(told[0]) == told[1] else None
    if target is None and seen.batch is not None and told is None:
        target = _from_batch(seen, count)
    return (None, False) if target is None else _one_each(target, count)


def _from_batch(seen: "Seen", count: int) -> Any:
    tensors = [t for t in _tensors(seen.batch) if t.dim() and t.shape[0] == count]
    fed = {x.data_ptr() for x in seen.xs}
    others = [t for t in tensors if t.data_ptr() not in fed and t.dim() <= 2]
    if len(others) == len(tensors):  # it was changed on its way to the model, and stands first by custom
        others = [t for t in tensors[1:] if t.dim() <= 2]
    whole = [t for t in others if t.dim() == 1 and not t.is_floating_point()]
    return whole[0] if whole else others[0] if len(others) == 1 else None


def _one_each(target: Any, count: int) -> tuple[Any, bool]:
    import torch

    target = torch._C.TensorBase.cpu(target.detach())
    if target.shape[0] != count or target.is_complex():
        return None, False
    if target.dim() == 2 and target.shape[1] > 1:
        sums = target.float().sum(1)
        if target.is_floating_point() and bool((target >= 0).all()) and bool(((sums - 1).abs() < 1e-3).all()):
            return target.argmax(1).double(), True
        return None, False
    if target.numel() != count:
        return None, False
    flat = target.reshape(-1)
    if not flat.is_floating_point():
        return flat.double(), True
    return flat.double(), bool(((flat == 0) | (flat == 1)).all())


def _predictions(seen: "Seen", count: int) -> tuple[Any, int | None]:
    """One answer per row, and how many outputs the model has."""
    import torch

    told = seen.output
    if told is None or version(told[0]) != told[1] or not told[0].is_floating_point():
        return None, None
    out = torch._C.TensorBase.cpu(told[0])
    if out.shape[0] != count:
        return None, None
    if out.dim() == 2 and out.shape[1] > 1:
        return out.argmax(1).double(), out.shape[1]
    return (out.reshape(-1).double(), 1) if out.numel() == count else (None, None)


def _root(dataset: Any) -> Any:
    for _ in range(4):
        dataset = getattr(dataset, "dataset", dataset)
    return dataset


def _size(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def _ranks() -> int:
    import torch

    gathered = torch.distributed
    return gathered.get_world_size() if gathered.is_available() and gathered.is_initialized() else 1
