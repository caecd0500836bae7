"""The accuracy guard: the whole validation set through the module and through what was made of it, row by row."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from netdyno.errors import TargetError
from netdyno.records.deployment import Accuracy
from netdyno.runtimes._base import Arrays, Call
from netdyno.shipping.subject import Subject, all_rows
from netdyno.verdicts.paired_accuracy import judged, renumbered


class Scores(NamedTuple):
    """Quality by row, higher is better, and the decision of each row where there is one."""

    right: tuple[float, ...]
    decided: tuple[int, ...]


def guard(subject: Subject, call: Call, *, limit: float, level: float = 0.95) -> Accuracy | None:
    """What a way of running the module costs in accuracy, paired over the whole validation set; None where there is nothing to judge by.

    The module's own scores are kept from one candidate to the next. Raises TargetError when no quality fits its answers.
    """
    control = _control(_Identity(subject))
    if control is None:
        return None
    treatment = _scored(subject, call)
    moved = renumbered(control.decided, treatment.decided)
    says = "" if moved is None else f"its answers are the module's in another order of classes ({_order(moved)})"
    return judged(control.right, treatment.right, limit=limit, level=level, says=says)


def prepare(subject: Subject) -> None:
    """Let the module itself answer the whole validation set now, so that who comes first does not pay for it."""
    _control(_Identity(subject))


def _order(moved: dict[int, int]) -> str:
    return ", ".join(f"{mine} as {theirs}" for mine, theirs in list(moved.items())[:4]) + (
        " …" if len(moved) > 4 else ""
    )


class _Identity:
    """A subject as a key: one and the same, whatever it holds."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.subject is self.subject

    def __hash__(self) -> int:
        return id(self.subject)


@lru_cache(maxsize=1)
def _control(key: _Identity) -> Scores | None:
    subject = key.subject
    first = next(_batches(subject), None)
    if first is None or first[1] is None:
        return None
    own = len(subject.example[0])
    found = _scored(subject, subject.answers if subject.dynamic else _whole(subject.answers, own))
    if not all(np.isfinite(found.right)):
        raise TargetError(
            f"the quality of `{subject.release.name}` is not a number on some validation rows",
            because="the module's own answers are judged with NaN or infinity there",
            hint="look at `quality` and at the validation data; the gate names rows that are answered with NaN",
        )
    return found


def _whole(call: Call, size: int) -> Call:
    """Parts of exactly `size` rows, the last filled up, for a module that takes no other number."""
    from netdyno.runtimes._base import padded

    return padded(call, (size,))


def _batches(subject: Subject) -> Iterator[tuple[Arrays, Any]]:
    yield from all_rows(subject)


def _scored(subject: Subject, call: Call) -> Scores:
    right: list[float] = []
    decided: list[int] = []
    rebuild = _Form(subject)
    for arrays, target in _batches(subject):
        answers = call(arrays)
        right += subject.release.rows_right(rebuild(answers), target).tolist()
        decided += _decisions(answers)
    return Scores(tuple(right), tuple(decided))


def _decisions(answers: Arrays) -> list[int]:
    for array in answers:
        if array.ndim == 2 and array.shape[1] > 1 and array.dtype.kind == "f":
            return [int(at) for at in array.argmax(1)]
    return []


class _Form:
    """Puts flat answers back into the form that the module gives, for a quality that reads it by name."""

    def __init__(self, subject: Subject) -> None:
        with torch.inference_mode():
            output = subject.model(*subject.example)
        self.leaves, self.spec = pytree.tree_flatten(output)

    def __call__(self, answers: Arrays) -> Any:
        left = iter(answers)
        leaves = [
            torch.from_numpy(np.array(next(left))).to(leaf.dtype) if isinstance(leaf, Tensor) else leaf
            for leaf in self.leaves
        ]
        return pytree.tree_unflatten(leaves, self.spec)
