"""What the model is fed, in training and in evaluation: hears every call cheaply and reads the numbers at the end."""

from collections import deque
from typing import Any, ClassVar

from ..frames import NOWHERE, Line, user_line
from ..origins import origins
from . import _samples_rows as rows
from ._base import Call, LossCall, Vital, Watch

# Tensors that wait to be read are kept alive by us: so many bytes of them, then they are read or let go.
WAITING = 8 << 20
# Rows whose prints are kept; a run shows within them what it does in every epoch.
MOST_TRAIN, MOST_EVAL = 100_000, 60_000
# After that only the latest calls are kept, for how well the model does in the end.
LATE = 48
# Reading costs about 5 ns for each byte; so many readings may come in mid-run.
READINGS = 24
MOST_WAITING = 3000
# An output larger than this per call is an image or a text, and no answer about a row.
MOST_OUTPUT = 1 << 20
OPEN = 64
TARGETS = ("labels", "label", "target", "targets")


class Seen:
    """One call of the model: what went in, what it was judged by."""

    __slots__ = (
        "batch", "data", "group", "joint", "loader", "loss", "loss_name", "module", "output", "passes", "role", "site",
        "target", "training", "update", "versions", "weighted", "xs",
    )  # fmt: skip

    def __init__(self, call: Call, update: int) -> None:
        self.xs, self.target = _inputs(call.args, call.kwargs)
        self.versions = [rows.version(x) for x in self.xs]
        self.data = bool(self.xs)
        frame = call.frame
        self.module = id(call.module)
        # Two models that are called on one line play two parts: a frozen one and the head that trains.
        self.site = (frame.f_code, frame.f_lineno, self.module)
        self.training = bool(call.module.training)
        self.update = update
        self.output: Any = None
        self.loss: Any = None
        self.loss_name = ""
        self.weighted = self.joint = False
        self.role = "" if call.grad else "evaluation"
        self.loader: Any = None
        self.passes = 0
        self.group = 0
        self.batch: Any = None
        out = call.output
        if hasattr(out, "detach") and out.dim() and out.numel() * 4 <= MOST_OUTPUT:
            self.output = (out.detach(), rows.version(out))

    @property
    def bytes(self) -> int:
        """What is kept alive."""
        return sum(x.numel() * x.element_size() for x in self.xs)


class Samples(Vital):
    """Keeps what came by until there is time to read it."""

    kind: ClassVar[str] = "Samples"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.open: list[Seen] = []
        self.waiting: list[Seen] = []
        self.late: dict[str, deque[Seen]] = {"training": deque(maxlen=LATE), "evaluation": deque(maxlen=LATE)}
        self.bytes = 0
        self.readings = 0
        self.closed = False
        self.book = rows.Book()
        self.sites: dict[
            Any, bool
        ] = {}  # calls that training goes through, and whether the module was in training mode
        self.lines: dict[Any, Line] = {}
        self.fetched: Any = None
        self.loaders: dict[int, rows.LoaderBook] = {}
        self.last: Seen | None = None
        self.groups = 0
        self.rounds: dict[Any, tuple[int, int]] = {}  # update and rows of each site's latest evaluation
        self.holes = False
        self.told: dict[str, Any] | None = None

    # hears

    def every_batch(self, loader: Any, batch: Any) -> None:
        """A batch came out of a loader."""
        self.fetched = (loader, batch)
        book = self.loaders.get(loader.number)
        if book is None:
            if len(self.loaders) >= 64:
                return
            book = self.loaders[loader.number] = rows.LoaderBook(loader)
        book.came(loader)

    def every_called(self, call: Call) -> None:
        """The model was called."""
        seen = Seen(call, self.watch.updates)
        if seen.site not in self.lines and len(self.lines) < 256:
            self.lines[seen.site] = user_line(call.frame)
        if self.fetched is not None:
            seen.loader, seen.batch = self.fetched
            seen.passes = seen.loader.iterations
        self.last = seen
        if call.grad:
            self.open.append(seen)
            if len(self.open) > OPEN:  # grad was left on in evaluation
                self._keep(self.open.pop(0), "evaluation")
        else:
            self._keep(seen, "evaluation")

    def every_loss(self, call: LossCall) -> None:
        """Something was judged."""
        target, judged = call.target, call.input
        if not hasattr(target, "dim") or not hasattr(judged, "dim") or not target.dim():
            return
        count = target.shape[0]
        for seen in reversed(self.open) if call.grad else (self.last,) if self.last is not None else ():
            if seen.data and seen.xs[0].shape[0] == count and seen.target is None:
                seen.target = (target.detach(), rows.version(target))
                seen.loss_name = call.name
                seen.weighted = any(call.kwargs.get(name) is not None for name in ("weight", "pos_weight")) or (
                    len(call.args) > 2 and call.args[2] is not None
                )
                if judged.dim() and judged.shape[0] == count and judged.numel() * 4 <= MOST_OUTPUT:
                    seen.output = (judged.detach(), rows.version(judged))
                if not call.grad and call.result.numel() == 1:
                    seen.loss = call.result.detach()
                return

    def every_backward(self, loss: Any) -> None:
        """What was called since the last time was training, unless its module was known to be evaluated."""
        group = self.open
        if not group:
            return
        self.open = []
        self.groups += 1
        first = not self.sites
        trained, chained = [], True
        for seen in reversed(group):
            known = self.sites.get(
                seen.site, self.sites.get(seen.site[:2])
            )  # a model made anew plays the old one's part
            if first or chained or (known is not None and (seen.training or not known)):
                self.sites[seen.site] = bool(self.sites.get(seen.site)) or seen.training
                self.sites[seen.site[:2]] = self.sites[seen.site]
                trained.append(seen)
            else:
                self._keep(seen, "evaluation")
            # What has no data of its own was fed by the call before it.
            chained = chained and not seen.data
        trained.reverse()
        alike = sum(seen.data for seen in trained)
        for seen in trained:
            seen.joint = alike > 1
            seen.group = self.groups
        found = loss[0] if isinstance(loss, list | tuple) and loss else loss
        if hasattr(found, "numel") and found.numel() == 1:
            trained[-1].loss = found.detach()
            for seen in trained:
                seen.loss = trained[-1].loss
        for seen in trained:
            self._keep(seen, "training")

    def _keep(self, seen: Seen, role: str) -> None:
        seen.role = role
        if not seen.data:
            return
        if role == "evaluation":
            at, count = self.rounds.get(seen.site, (-1, 0))
            count = seen.xs[0].shape[0] + (count if at == seen.update else 0)
            self.rounds[seen.site] = (seen.update, count)
            self.book.longest[seen.site] = max(self.book.longest.get(seen.site, 0), count)
        # Prints with holes between them would tell of passes that nobody made; evaluations are heard whole.
        elif not self.watch.whole:
            self.holes = True
        full = (
            self.closed
            or (self.holes and role == "training")
            or self.book.rows[role] >= (MOST_TRAIN if role == "training" else MOST_EVAL)
        )
        size = seen.bytes
        if full or size > 4 * WAITING:
            self.late[role].append(seen if size <= WAITING // LATE else _thin(seen))
            return
        self.waiting.append(seen)
        self.book.rows[role] += seen.xs[0].shape[0]
        self.bytes += size
        if self.bytes > WAITING and self.readings < READINGS and self.watch.affords():
            self.readings += 1
            waiting, self.waiting, self.bytes = self.waiting, [], 0
            self.book.read(waiting)
        elif self.bytes > 3 * WAITING or len(self.waiting) > MOST_WAITING:
            # What came first is kept: whole passes, from the beginning. The prints of later ones would have holes.
            self.closed = True

    # reads

    def over(self) -> None:
        """Everything that waits is read, and compared."""
        from ._samples_looks import look

        for seen in self.open:
            # The run may have been stopped within an update: that call was no evaluation.
            if not (seen.training and self.sites.get(seen.site)):
                self._keep(seen, "evaluation")
        self.open = []
        self.book.read(self.waiting)
        self.waiting = []
        self.book.read([*self.late["training"], *self.late["evaluation"]], late=True)
        self.late["training"].clear()
        self.late["evaluation"].clear()
        lines = {site: _place(line) for site, line in self.lines.items()}
        self.told = look(self.book, self.loaders, lines, self.watch.updates)
        if self.told is not None:
            self.told |= _made(self.told["where"], self.told["eval_where"])
        self.last = self.fetched = None
        self.loaders.clear()

    def summary(self) -> dict[str, Any] | None:
        """The comparison, once the script is over."""
        return self.told


def _place(line: Line) -> dict[str, Any] | None:
    return None if line is NOWHERE or not line.file else {"file": line.file, "line": line.line}


def _made(train: dict[str, Any] | None, held: dict[str, Any] | None) -> dict[str, Any]:
    """The statements that made what these lines gave to the model; where the source does not tell, the lines themselves."""
    told: dict[str, Any] = {}
    for side, called in (("eval_", held), ("", train)):
        if called is None:
            continue
        found = origins(Line(called["file"], called["line"], ""))
        lines = {
            f"{side}where": found.inputs, f"{side}targets_where": found.targets, "split_where": found.split, "whole_where": found.whole,
        }  # fmt: skip
        told |= {name: {"file": called["file"], "line": line} for name, line in lines.items() if line is not None}
    return told


def _inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """The tensors that go in with one row per sample, and a target among them; none when they come from another network."""
    found: list[Any] = []
    target = None
    for name, value in (*(("", value) for value in args), *kwargs.items()):
        if not hasattr(value, "detach") or not value.dim() or value.layout is not _strided():
            continue
        if name in TARGETS:
            target = (value.detach(), rows.version(value))
        elif value.requires_grad:
            return [], None
        elif not found or (value.shape[0] == found[0].shape[0] and len(found) < 4):
            found.append(value.detach())
    if found and (not found[0].shape[0] or found[0].dim() < 1):
        return [], None
    return found, target


def _strided() -> Any:
    import torch

    return torch.strided


def _thin(seen: Seen) -> Seen:
    keep = max(1, (WAITING // LATE) * seen.xs[0].shape[0] // max(1, seen.bytes))
    count = seen.xs[0].shape[0]
    seen.xs = [x[:keep].clone() for x in seen.xs]
    seen.versions = [rows.version(x) for x in seen.xs]
    if seen.target is not None and seen.target[0].shape[0] == count:
        seen.target = (seen.target[0][:keep].clone(), 0)
    else:
        seen.target = None
    seen.output = (
        (seen.output[0][:keep].clone(), 0) if seen.output is not None and seen.output[0].shape[0] == count else None
    )
    seen.batch = None
    return seen


VITAL = Samples
