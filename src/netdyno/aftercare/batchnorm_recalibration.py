"""Renews the running statistics of batch norms from unlabelled rows as they come online, behind a gate, with undo (ledger A-204).

A loop over online samples in eval mode, under `no_grad`, changes no statistic at all: `noticed` says so of anybody's loop.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from netdyno.aftercare._reference import Reference, fingerprint, gate, modes_kept
from netdyno.errors import NetdynoError
from netdyno.records.deployment import Accuracy

# Over so many rows the mean of a channel is within a few hundredths of its deviation, and the cumulative mean forgets nothing.
LEAST_ROWS = 1000
# Rows of one forward. Each batch counts alike in a cumulative mean, so that all must have the same size.
BATCH = 50

Rows = tuple[Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """The running statistics of a model at one time: a version, where they come from, and the tensors by name."""

    version: int
    source: str
    tensors: dict[str, Tensor]

    @property
    def key(self) -> str:
        """A hash of every byte."""
        return fingerprint(self.tensors.items())

    def put(self, model: nn.Module) -> None:
        """Write them into a model, to the byte. Raises NetdynoError when its batch norms are others."""
        there = dict(_buffers(model))
        if {name: one.shape for name, one in there.items()} != {name: one.shape for name, one in self.tensors.items()}:
            raise NetdynoError(
                f"cannot put version {self.version} of the statistics into this model",
                because="its batch norms have other names or sizes",
                hint="statistics belong to the model that they were taken from",
            )
        with torch.no_grad():
            for name, tensor in self.tensors.items():
                there[name].copy_(tensor)

    def save(self, file: Path) -> None:
        """Write them to a file that `load` reads; no code is in it."""
        torch.save({"version": self.version, "source": self.source, "tensors": self.tensors, "key": self.key}, file)


@dataclass(frozen=True, kw_only=True)
class Recalibration:
    """What a recalibration did. `released` False: the gate did not hold, and the model is what it was, to the byte.

    `moved` is by how many of its old deviations each batch norm's mean went at most. `undo` puts `before` back.
    """

    before: Statistics
    after: Statistics
    rows: int
    moved: dict[str, float]
    accuracy: Accuracy | None
    released: bool
    says: tuple[str, ...]

    def undo(self, model: nn.Module) -> None:
        """The statistics before, to the byte."""
        self.before.put(model)


@dataclass(kw_only=True)
class Noticed:
    """What a loop did to the running statistics, filled in when it ends."""

    changed: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


def load(file: Path) -> Statistics:
    """The statistics in a file, read without running any code. Raises NetdynoError for another file, or a changed one."""
    try:
        held = torch.load(file, weights_only=True)
        found = Statistics(version=held["version"], source=held["source"], tensors=held["tensors"])
        sound = found.key == held["key"]
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, AttributeError) as error:
        raise NetdynoError(
            f"cannot read statistics from `{file}`", because=str(error).splitlines()[0] or type(error).__name__,
            hint="`Statistics.save` writes such files",
        ) from error  # fmt: skip
    except Exception as error:  # an unpickler says what it met in many ways
        raise NetdynoError(
            f"cannot read statistics from `{file}`",
            because=f"it is no such file: {type(error).__name__}",
            hint="`Statistics.save` writes such files",
        ) from error
    if not sound:
        raise NetdynoError(
            f"`{file}` was changed after it was written", because="its hash differs", hint="take an earlier version"
        )
    return found


def taken(model: nn.Module, *, version: int = 0, source: str = "the release") -> Statistics:
    """A copy of the model's running statistics. Raises NetdynoError where it has none."""
    tensors = {name: tensor.detach().clone() for name, tensor in _buffers(model)}
    if not tensors:
        raise NetdynoError(
            "there are no statistics to renew",
            because="the model has no batch norm that keeps running statistics",
            hint="layer, group and instance norms take theirs from each sample: they need no recalibration",
        )
    return Statistics(version=version, source=source, tensors=tensors)


def recalibrate(
    model: nn.Module,
    rows: Iterable[Rows],
    *,
    reference: Reference | None = None,
    max_drop: float = 0.005,
    least: int = LEAST_ROWS,
    batch: int = BATCH,
    level: float = 0.95,
    version: int = 1,
    source: str = "online rows",
) -> Recalibration:
    """Renew the statistics in place from unlabelled batches of inputs, or leave the model as it was where the gate does not hold.

    Only batch norms are in train mode, and they average (`momentum=None`) over `least` rows at least; dropout stays off, weights stay as
    they are, and every module has its own mode afterwards. What comes online may be a fault as well as a new season: without
    a `reference`, nothing guards against it, and the answer says so. `version` counts renewals. Raises NetdynoError for too few rows.
    """
    old = taken(model, version=version - 1, source="before")
    norms = _norms(model)
    control = reference.scores(model) if reference is not None else []
    try:
        counted = _averaged(model, norms, rows, least=least, batch=batch)
        fresh = taken(model, version=version, source=source)
        accuracy = None
        if reference is not None:
            accuracy = gate(control, reference.scores(model), max_drop=max_drop, level=level)
    except BaseException:
        old.put(model)
        raise
    released = accuracy is None or accuracy.decision == "holds"
    if not released:
        old.put(model)
    return Recalibration(
        before=old, after=fresh, rows=counted, moved=_moved(old, fresh, norms), accuracy=accuracy, released=released,
        says=tuple(_says(accuracy, counted, released=released, changed=old.key != fresh.key)),
    )  # fmt: skip


def _says(accuracy: Accuracy | None, rows: int, *, released: bool, changed: bool) -> Iterator[str]:
    yield f"averaged over {rows} rows"
    if not changed:
        yield "nothing changed: the statistics are those that were there"
    if accuracy is None:
        yield "released without a gate: no reference set was given, and a fault would have been adapted to as well"
    else:
        yield accuracy.says
        if not released:
            yield "not released: the statistics of before are back, to the byte"


def _averaged(
    model: nn.Module, norms: dict[str, nn.modules.batchnorm._BatchNorm], rows: Iterable[Rows], *, least: int, batch: int
) -> int:
    """Send the rows through, with only the norms learning; gives how many there were."""
    momenta = {name: norm.momentum for name, norm in norms.items()}
    counted = 0
    with modes_kept(model), torch.no_grad():
        model.eval()
        for norm in norms.values():
            norm.reset_running_stats()
            norm.momentum = None
            norm.train()
        try:
            for part in _same_sized(rows, batch):
                model(*part)
                counted += len(part[0])
        finally:
            for name, norm in norms.items():
                norm.momentum = momenta[name]
    if counted < least:
        raise NetdynoError(
            f"cannot renew the statistics from {counted} rows",
            because=f"{least} are asked for: a channel's mean over fewer is itself too uncertain",
            hint=f"collect {least} rows, or lower `least` and let the gate judge",
        )
    return counted


def _same_sized(rows: Iterable[Rows], batch: int) -> Iterator[Rows]:
    """The rows in batches of one size: a smaller last one would count as much as the others, and is left out."""
    held: Rows = ()
    for part in rows:
        held = tuple(torch.cat(pair) for pair in zip(held, part, strict=True)) if held else tuple(part)
        while len(held[0]) >= batch:
            yield tuple(one[:batch] for one in held)
            held = tuple(one[batch:] for one in held)


def _moved(old: Statistics, new: Statistics, norms: dict[str, nn.modules.batchnorm._BatchNorm]) -> dict[str, float]:
    found = {}
    for name in norms:
        mean, var = f"{name}.running_mean", f"{name}.running_var"
        deviation = old.tensors[var].double().sqrt().clamp_min(1e-12)
        distance = (new.tensors[mean].double() - old.tensors[mean].double()).abs() / deviation
        found[name] = float(distance.max())
    return found


@contextmanager
def noticed(model: nn.Module) -> Iterator[Noticed]:
    """Watch a loop of one's own: what it changed of the statistics, and what its modes did besides.

    The answer's fields are there once the `with` has ended.
    """
    before = taken(model)
    norms = _norms(model)
    answer = Noticed()
    calls: list[tuple[bool, bool]] = []  # of each forward: were norms learning, was dropout on

    def look(module: nn.Module, _inputs: object) -> None:
        drops = [one for one in module.modules() if isinstance(one, nn.modules.dropout._DropoutNd)]
        calls.append((any(norm.training for norm in norms.values()), any(one.training for one in drops)))

    hook = model.register_forward_pre_hook(look)
    try:
        yield answer
    finally:
        hook.remove()
        after = taken(model)
        answer.changed = tuple(
            name for name in norms
            if any(
                not torch.equal(before.tensors[f"{name}.{part}"], after.tensors[f"{name}.{part}"])
                for part in ("running_mean", "running_var")
            )
        )  # fmt: skip
        answer.says = tuple(_of_loop(answer.changed, len(norms), calls))


def _of_loop(changed: Sequence[str], norms: int, calls: Sequence[tuple[bool, bool]]) -> Iterator[str]:
    if not calls:
        yield "the model was not called"
        return
    times = f"{len(calls)} call{'s' if len(calls) > 1 else ''}"
    if not changed and not any(learning for learning, _ in calls):
        yield (
            f"{times} changed nothing: every batch norm was in eval mode, and in eval mode the running statistics are "
            "read and never written; put the batch norms alone into train mode, or use `recalibrate`"
        )
    elif not changed:
        yield f"{times} changed nothing, although batch norms were in train mode: is their momentum 0?"
    else:
        yield f"{times} changed {len(changed)} of {norms} batch norms"
    if any(dropping for _, dropping in calls):
        yield "dropout was on: the statistics are those of a thinned network, which nobody serves"


def _norms(model: nn.Module) -> dict[str, nn.modules.batchnorm._BatchNorm]:
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None
    }


def _buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for name, norm in _norms(model).items():
        for part, tensor in norm.named_buffers(recurse=False):
            yield f"{name}.{part}", tensor
