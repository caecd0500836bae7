"""Evaluation round by round: what was scored, what was kept after it, and which numbers were printed of it."""

import ast
import builtins
import linecache
import re
import sys
from collections import deque
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import LossCall, Vital, Watch

# Rounds that are remembered; a long run is judged by its last ones. Loaders that are told.
MOST, LOADERS = 400, 8
# Printed lines of one round that are read.
LINES = 6
# Lines of the user on the stack of a call, innermost first: what decides on it stands there or in who called it.
CALLERS = 4
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{2,}(?:e[+-]?\d+)?")
CLASSES = ("cross_entropy", "nll_loss")


class Tally:
    """One round: sums over rows, and the last batch's own values."""

    __slots__ = (
        "accurate",
        "batches",
        "kept",
        "last",
        "last_right",
        "lines",
        "loss",
        "right",
        "rows",
        "saved",
        "update",
    )

    def __init__(self, update: int) -> None:
        self.update = update
        self.batches = self.rows = 0
        self.loss = self.right = 0.0
        self.last: float | None = None
        self.last_right: float | None = None
        self.accurate = True
        self.kept = self.saved = False
        self.lines: list[str] = []

    def told(self) -> dict[str, Any]:
        """As a record has it."""
        scored = bool(self.rows)
        return {
            "update": self.update,
            "batches": self.batches,
            "rows": self.rows,
            "loss": self.loss / self.rows if scored else None,
            "last_loss": self.last,
            "accuracy": self.right / self.rows if scored and self.accurate else None,
            "last_accuracy": self.last_right if self.accurate else None,
            "kept": self.kept,
            "to_disk": self.saved,
        }


class Rounds(Vital):
    """Hears losses without a graph, state dictionaries that are taken, and what is printed."""

    kind: ClassVar[str] = "EvaluationRounds"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.rounds: deque[Tally] = deque(maxlen=MOST)
        self.known: dict[int, tuple[Any, list[Any]]] = {}
        self.kept_line: Line | None = None
        self.kept_stack: list[Line] = []
        self.print_line: Line | None = None
        self.restored_at = -1
        self.last_update = -1
        self._listen()

    def _listen(self) -> None:
        import torch

        replace = self.watch.observer.replacements.replace
        replace("rounds state", torch.nn.Module, "state_dict", self._keeping)
        replace("rounds load", torch.nn.Module, "load_state_dict", self._loading)
        replace("rounds save", torch, "save", self._saving)
        replace("rounds print", builtins, "print", self._printing)

    def _noted(self, original: Any, note: Any) -> Any:
        watch = self.watch

        def noted(*args: Any, **kwargs: Any) -> Any:
            if not watch.busy and not watch.ended and not watch.observer.is_compiling() and watch.observer.candidate():
                watch.observer.guarded("vital rounds", note, args, kwargs, sys._getframe(1))
            return original(*args, **kwargs)

        return noted

    def _keeping(self, original: Any) -> Any:
        def kept(args: tuple[Any, ...], kwargs: dict[str, Any], frame: Any) -> None:
            tally = self._current()
            if "prefix" in kwargs or tally is None or not any(args[0] is model for model in self.watch.models):
                return
            tally.kept = True
            if not self.kept_stack:
                self.kept_stack = _stack(frame)
            self.kept_line = user_line(frame)

        return self._noted(original, kept)

    def _saving(self, original: Any) -> Any:
        def saved(_args: tuple[Any, ...], _kwargs: dict[str, Any], _frame: Any) -> None:
            tally = self._current()
            if tally is not None:
                tally.saved = True

        return self._noted(original, saved)

    def _loading(self, original: Any) -> Any:
        def loaded(args: tuple[Any, ...], _kwargs: dict[str, Any], _frame: Any) -> None:
            if any(args[0] is model for model in self.watch.models):
                self.restored_at = self.watch.updates

        return self._noted(original, loaded)

    def _printing(self, original: Any) -> Any:
        def printed(args: tuple[Any, ...], _kwargs: dict[str, Any], frame: Any) -> None:
            tally = self._current()
            if tally is not None and len(tally.lines) < LINES:
                tally.lines.append(" ".join(str(one) for one in args if isinstance(one, str | float | int))[:400])
                self.print_line = user_line(frame)

        return self._noted(original, printed)

    def _current(self) -> Tally | None:
        """The round that has just been, if nothing was learnt since."""
        if self.rounds and self.rounds[-1].update == self.watch.updates:
            return self.rounds[-1]
        return None

    def every_loss(self, call: LossCall) -> None:
        """A loss without a graph: one batch of the round."""
        if call.grad:
            return
        updates = self.watch.updates
        if not self.rounds or self.rounds[-1].update != updates:
            self.rounds.append(Tally(updates))
        tally = self.rounds[-1]
        result, target, given = call.result, call.target, call.input
        if result.numel() != 1 or not hasattr(target, "shape") or not target.dim() or not result.is_cpu:
            tally.accurate = False
            return
        rows = target.shape[0]
        value = self.watch.observer._item(result)
        reduced = call.kwargs.get("reduction", "mean")
        mean = value / rows if reduced == "sum" else value
        tally.batches += 1
        tally.rows += rows
        tally.loss += mean * rows
        tally.last = mean
        if not tally.accurate or call.name not in CLASSES or target.is_floating_point() or given.dim() != 2:
            tally.accurate = False
            return
        if tally.batches > 4 and not self.watch.affords():
            tally.accurate = False
            return
        right = float((given.argmax(1) == target).sum())
        tally.right += right
        tally.last_right = right / rows

    def every_batch(self, loader: Any, _batch: Any) -> None:
        """A loader and how it was made, once."""
        if loader.number not in self.known and len(self.known) < LOADERS:
            self.known[loader.number] = (loader, [_made(loader.ref())])

    # what is told

    def _printed(self) -> tuple[int, int, int]:
        """Rounds of several unlike batches that were printed of: all, those that show the last batch's value, the round's."""
        said = last = mean = 0
        for tally in self.rounds:
            told = tally.told()
            pairs = [
                (whole, end)
                for whole, end in ((told["loss"], told["last_loss"]), (told["accuracy"], told["last_accuracy"]))
                if whole is not None and end is not None and tally.batches > 1
            ]
            numbers = [text for line in tally.lines for text in NUMBER.findall(line)]
            if not pairs or not numbers:
                continue
            said += 1
            shown_last = [
                whole for whole, end in pairs if any(_shows(text, end) and not _shows(text, whole) for text in numbers)
            ]
            shown_mean = [whole for whole, end in pairs if any(_shows(text, whole) for text in numbers)]
            last += bool(shown_last)
            mean += bool(shown_mean) and not shown_last
        return said, last, mean

    def summary(self) -> dict[str, Any] | None:
        """All rounds, loaders that are only evaluated on, and what was printed."""
        loaders = [
            _loader(loader, made[0])
            for loader, made in self.known.values()
            if made[0] and loader.evaluates and not loader.trains
        ]
        if not self.rounds and not loaders:
            return None
        said, last, mean = self._printed()
        updates = self.watch.updates
        return {
            "updates": updates,
            "rounds": [tally.told() for tally in self.rounds],
            "loaders": loaders,
            "printed": said,
            "printed_last": last,
            "printed_mean": mean,
            "printed_where": _place(self.print_line),
            "kept_where": _place(self.kept_line),
            "kept_compared": any(_compared(line) for line in self.kept_stack),
            "restored": self.restored_at == updates,
        }


def _stack(frame: Any) -> list[Line]:
    lines: list[Line] = []
    while frame is not None and len(lines) < CALLERS:
        line = user_line(frame)
        while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (line.file, line.line):
            frame = frame.f_back
        if frame is None:
            break
        lines.append(line)
        frame = frame.f_back
    return lines


def _compared(line: Line) -> bool:
    """Whether an `if` around the line asks which of two values is larger."""
    try:
        tree = ast.parse("".join(linecache.getlines(line.file)))
    except (SyntaxError, ValueError):
        return False
    around = (
        one for one in ast.walk(tree) if isinstance(one, ast.If) and one.lineno <= line.line <= (one.end_lineno or 0)
    )
    return any(_orders(part) for one in around for part in ast.walk(one.test))


def _orders(part: ast.AST) -> bool:
    return (
        isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        and not any(isinstance(side, ast.Constant) for side in (part.left, *part.comparators))
    )


def _shows(text: str, value: float) -> bool:
    """Whether the printed number is this value, or this value in per cent, as far as its digits go."""
    digits = len(text.partition(".")[2].partition("e")[0])
    if digits < 3 and "e" not in text:
        return abs(float(text) - 100 * value) <= 0.5001 * 10**-digits
    return abs(float(text) - value) <= 0.5001 * 10**-digits or abs(float(text) - 100 * value) <= 0.5001 * 10**-digits


def _made(loader: Any) -> dict[str, Any] | None:
    from torch.utils import data

    try:
        samples = len(loader.dataset)
    except (TypeError, AttributeError):
        return None
    if not loader.batch_size or isinstance(loader.dataset, data.IterableDataset):
        return None
    rest = samples % loader.batch_size if loader.drop_last else 0
    return {
        "samples": samples,
        "batch_size": int(loader.batch_size),
        "rows": samples - rest,
        "drop_last": bool(loader.drop_last),
        "shuffled": isinstance(loader.sampler, data.RandomSampler),
        "own_generator": loader.generator is not None,
    }


def _loader(loader: Any, made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "passes": loader.iterations, "where": _place(loader.line)}


def _place(line: Line | None) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line is not None and line.file else None


VITAL = Rounds
