"""The gate before an export: every item looks at the trained module in its own way, and says what to do when it fails."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from msgspec.structs import replace
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, Dataset, Subset, default_collate
from torch.utils.flop_counter import FlopCounterMode

from netdyno.measure.untouched import untouched_module
from netdyno.records.deployment import GateCheck
from netdyno.targets.samples import spread

if TYPE_CHECKING:
    from netdyno.targets.release import Release

Inputs = tuple[Tensor, ...]

# Rows of real data that most items look at: enough to meet both sides of a branch, few enough for a large model.
FEW = 32
# Rows of the validation data that are scored where an item needs to know how good the module is: fewer of a large model, whose pass
# over so many rows would take longer than this much arithmetic does (some ten seconds on one core), but never fewer than the least.
MANY, LEAST, MOST_FLOP = 512, 160, 5e11
# Registries of a module, which are put back by name; every other attribute is put back as a binding.
REGISTRIES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A trained module as the user gives it, in whatever mode, with two rows of inputs or more, and what was declared beside it."""

    model: nn.Module
    example: tuple[Tensor, ...]
    release: "Release"

    @cached_property
    def calibration(self) -> Dataset[Any] | None:
        """The calibration data, or None."""
        return self.release.calibration_data()

    @cached_property
    def validation(self) -> Dataset[Any] | None:
        """The validation data, or None."""
        return self.release.validation_data()

    @cached_property
    def rows(self) -> Inputs:
        """Some rows as the module meets them: of the validation data, else of the calibration data, else the example."""
        data = self.validation if self.validation is not None else self.calibration
        return self.example if data is None else self.inputs_of(data, FEW)

    def inputs_of(self, data: Dataset[Any], most: int) -> Inputs:
        """Inputs of at most so many samples, evenly spread over a data set."""
        chosen = spread(len(data), most)  # type: ignore[arg-type]
        rows = [data[at] for at in chosen]
        parts = [tuple(row) if isinstance(row, tuple | list) else (row,) for row in rows]
        return tuple(default_collate([part[: len(self.example)] for part in parts]))

    @cached_property
    def many(self) -> int:
        """How many rows are scored: by the arithmetic of one, so that the answer is the same on every machine."""
        try:
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                self.model(*self.example)
        except Exception:
            return MANY  # what cannot be counted is looked at all the same
        each = counter.get_total_flops() / len(self.example[0])
        return max(LEAST, min(MANY, int(MOST_FLOP / each))) if each else MANY

    def batches(self, data: Dataset[Any], most: int | None = None) -> Iterator[tuple[Inputs, Any]]:
        """Inputs and targets, in batches, of at most so many samples (`many`), evenly spread; a target may be None."""
        count = len(data)  # type: ignore[arg-type]
        most = self.many if most is None else most
        # Evenly spaced: a sample in which every class has its share would score otherwise than the whole.
        chosen = spread(count, most)
        part = Subset(data, chosen)
        inputs = len(self.example)
        for batch in DataLoader(part, batch_size=FEW):
            whole = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
            yield whole[:inputs], whole[inputs] if len(whole) > inputs else None

    @cached_property
    def scored(self) -> "Scored | None":
        """The module's answers to validation rows in eval mode; None where there are no targets, or no quality fits them."""
        return None if self.validation is None else scored(self)


class Scored(NamedTuple):
    """Rows of the validation data as the module answers them: its first output, the targets, and quality by row."""

    output: Tensor
    target: Any
    right: Tensor


def scored(candidate: Candidate, most: int | None = None) -> Scored | None:
    """Answer and judge validation rows with the module as it stands; switches it to eval mode."""
    assert candidate.validation is not None
    model = candidate.model.eval()
    outputs: list[Tensor] = []
    targets: list[Any] = []
    right: list[Tensor] = []
    for inputs, target in candidate.batches(candidate.validation, most):
        if target is None:
            return None
        with torch.no_grad():
            output = model(*inputs)
        right.append(candidate.release.rows_right(output, target))
        outputs.append(next(leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)))
        targets.append(target)
    target = torch.cat(targets) if all(isinstance(one, Tensor) for one in targets) else None
    return Scored(torch.cat(outputs), target, torch.cat(right))


class Classes(NamedTuple):
    """Decisions of a classifier beside the targets, one per row."""

    output: Tensor
    decided: Tensor
    target: Tensor


def classes(candidate: Candidate) -> Classes | None:
    """What the module decides on validation rows, where it is a classifier with one whole-number target per row; else None."""
    found = candidate.scored
    if (
        found is None
        or not isinstance(found.target, Tensor)
        or found.target.is_floating_point()
        or found.target.dim() != 1
    ):
        return None
    if candidate.release.quality is not None or len(found.target) < 2:
        return None
    output, target = found.output.float(), found.target.long()
    if output.dim() == 2 and output.shape[1] > 1:
        return Classes(output, output.argmax(1), target)
    if output.numel() == len(target):
        flat = output.reshape(-1)
        return Classes(torch.stack((-flat, flat), 1), (flat > 0).long(), target)
    return None


Gate = Callable[[Candidate], GateCheck]


def item(look: Gate) -> Gate:
    """An item of the gate: named like its function, and whatever it does to the module is undone to the byte."""

    @wraps(look)
    def looked(candidate: Candidate) -> GateCheck:
        with untouched_module(candidate.model), _attributes(candidate.model):
            return replace(look(candidate), name=look.__name__.replace("_", "-"))

    return looked


@contextmanager
def _attributes(model: nn.Module) -> Iterator[None]:
    """What a forward binds to its module, such as a kept hidden state, is bound as before afterwards."""
    with ExitStack() as stack:
        for module in model.modules():
            if not isinstance(module, torch.jit.ScriptModule):
                stack.enter_context(_bindings(module))
        yield


@contextmanager
def _bindings(module: nn.Module) -> Iterator[None]:
    before = dict(vars(module))
    try:
        yield
    finally:
        there = vars(module)
        for name in set(there) - set(before):
            del there[name]
        for name, value in before.items():
            if name not in REGISTRIES and there.get(name) is not value:
                there[name] = value


def passed(says: str, **because: float) -> GateCheck:
    """The item holds."""
    return GateCheck(name="", ok=True, says=says, because=because)


def failed(
    says: str,
    *,
    fix: str,
    where: str = "",
    warning: bool = False,
    numbers: dict[str, float] | None = None,
    **because: float,
) -> GateCheck:
    """The item does not hold, or only gives a warning. The numbers behind it are given by name, or all together."""
    both = {**(numbers or {}), **because}
    return GateCheck(name="", ok=False, says=says, fix=fix, where=where, warning=warning, because=both)


def unseen(says: str) -> GateCheck:
    """The item could not be looked at, with the reason."""
    return GateCheck(name="", ok=None, says=says)


def answers(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The tensors that the module answers, in the order in which PyTorch flattens its output; without gradients."""
    with torch.no_grad():
        return [leaf.detach() for leaf in pytree.tree_leaves(model(*inputs)) if isinstance(leaf, Tensor)]


def named_tensors(tensors: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Outputs with the names that a person would give them."""
    for at, tensor in enumerate(tensors):
        yield "the output" if len(tensors) == 1 else f"output {at}", tensor


def apart(one: list[Tensor], other: list[Tensor]) -> float:
    """The largest difference of two answers, relative to the spread of the first; infinite where shapes or finiteness differ."""
    return max((_apart(a, b) for a, b in zip(one, other, strict=True)), default=0.0)


def _apart(one: Tensor, other: Tensor) -> float:
    if one.shape != other.shape:
        return float("inf")
    if not one.is_floating_point():
        return 0.0 if torch.equal(one, other) else float("inf")
    one, other = one.double(), other.double()
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    worst = float((one[finite] - other[finite]).abs().max())
    # Where all answers are alike there is no spread: rounding is then relative to their size.
    spread_of = float(one[finite].std(correction=0)) or float(one[finite].abs().max())
    return worst / spread_of if spread_of else (0.0 if worst == 0.0 else float("inf"))


def names(found: list[str], most: int = 4) -> str:
    """Some names for a sentence.

    >>> names(["a", "b", "c"], most=2)
    '`a`, `b` and 1 more'
    """
    shown = ", ".join(f"`{one or 'the module itself'}`" for one in found[:most])
    return shown + (f" and {len(found) - most} more" if len(found) > most else "")


def plural(count: int, word: str) -> str:
    """A count with its noun.

    >>> plural(1, "module"), plural(3, "module")
    ('1 module', '3 modules')
    """
    return f"{count} {word}" + ("" if count == 1 else "s")
