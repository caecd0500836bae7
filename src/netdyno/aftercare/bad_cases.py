"""Finds the cases that a released model gets wrong, and fine-tunes its last layers on them behind a gate (ledger A-206).

Learning from failures alone forgets what was right, so rows that were right are replayed with them, and no candidate is released that loses
on a regression set. All other layers stay bit-identical.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.aftercare._reference import Reference, copied, evaluating, fingerprint, gate, state
from netdyno.aftercare.odd_inputs import features
from netdyno.errors import NetdynoError
from netdyno.records.deployment import Accuracy
from netdyno.targets.samples import kept_randomness

# Half of every batch is replay: less forgets, more learns little from the new cases.
REPLAYED = 0.5
# Rows whose features agree to this are copies of one case: a camera that stands still sends the same picture all night.
SAME_CASE = 0.999


@dataclass(frozen=True, kw_only=True)
class BadCases:
    """Rows that were answered wrongly, worst first, copies left out. `at` are their places in what was looked at."""

    at: tuple[int, ...]
    reference: Reference
    copies: int
    says: str


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """A candidate, and whether it may be released. The model that it was made of is untouched: keeping it is the undo.

    `regression` is the paired look at rows that must not be lost, `mended` at bad cases that were not learned from. `frozen` is the hash of all
    tensors that were not to move, before and after alike.
    """

    candidate: nn.Module
    tuned: tuple[str, ...]
    frozen: str
    regression: Accuracy
    mended: Accuracy
    released: bool
    losses: tuple[float, ...]
    says: tuple[str, ...]


def mine(model: nn.Module, looked: Reference, *, most: int = 1000, layer: str | None = None) -> BadCases:
    """The rows that the model answers worst. For right and wrong these are the wrong ones; otherwise those below zero quality, or the lowest tenth."""
    scores = torch.tensor(looked.scores(model))
    binary = bool(((scores == 0) | (scores == 1)).all())
    limit = 0.0 if binary else float(scores.quantile(0.1))
    bad = [int(at) for at in scores.argsort(stable=True) if scores[at] <= limit]
    kept, copies = _without_copies(model, looked.inputs, bad, layer)
    chosen = tuple(kept[:most])
    return BadCases(
        at=chosen, reference=part(looked, chosen), copies=copies,
        says=f"{len(bad)} of {len(scores)} rows are answered worst; {copies} of them are copies of others, {len(chosen)} are kept",
    )  # fmt: skip


def _without_copies(
    model: nn.Module, inputs: tuple[Tensor, ...], rows: Sequence[int], layer: str | None
) -> tuple[list[int], int]:
    """The rows of which none before looks the same to the model: by the angle between their last features."""
    if not rows:
        return [], 0
    found = features(model, tuple(one[list(rows)] for one in inputs), layer=layer).double()
    unit = found / found.norm(dim=1, keepdim=True).clamp_min(1e-12)
    kept: list[int] = []
    for at in range(len(rows)):
        if not kept or float((unit[kept] @ unit[at]).max()) < SAME_CASE:
            kept.append(at)
    return [rows[at] for at in kept], len(rows) - len(kept)


def part(whole: Reference, rows: Sequence[int]) -> Reference:
    """Some rows of a reference."""
    at = list(rows)
    return Reference(inputs=tuple(one[at] for one in whole.inputs), targets=whole.targets[at], quality=whole.quality)


def fine_tune(
    model: nn.Module,
    bad: Reference,
    *,
    replay: Reference,
    regression: Reference,
    layers: int = 2,
    loss: Callable[[Any, Tensor], Tensor] = nn.functional.cross_entropy,
    learning_rate: float = 1e-3,
    updates: int = 200,
    batch: int = 32,
    replayed: float = REPLAYED,
    held_out: float = 0.3,
    max_drop: float = 0.005,
    level: float = 0.95,
    seed: int = 0,
) -> FineTuned:
    """Tune the last `layers` layers of a copy on bad cases mixed with replayed rows; it is released only where the regression set holds.

    The copy stays in eval mode: no dropout, and no batch norm learns the statistics of failures. Part of the bad cases is held out to see what
    is learned beyond those shown. `replay` and `regression` must not share rows, or the gate would see what was trained on.
    Raises NetdynoError for too few cases, or sets that share rows.
    """
    _fit_together(bad, replay, regression)
    candidate = copied(model)
    tuned = last_layers(candidate, layers)
    with kept_randomness():
        chance = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(bad.targets), generator=chance)
        cut = max(1, int(held_out * len(order)))
        unseen, shown = part(bad, order[:cut].tolist()), part(bad, order[cut:].tolist())
        before = frozen(candidate, tuned)
        torch.manual_seed(seed)
        losses = _trained(
            candidate, tuned, _mixed(shown, replay, batch, replayed, chance), loss=loss, learning_rate=learning_rate, updates=updates
        )  # fmt: skip
    after = frozen(candidate, tuned)
    if after != before:
        raise NetdynoError(
            "a frozen layer has moved", because="the model changes tensors of its own in a forward, even in eval mode",
            hint="let it change them in training mode only; nothing was released",
        )  # fmt: skip
    forgotten = gate(regression.scores(model), regression.scores(candidate), max_drop=max_drop, level=level)
    mended = gate(unseen.scores(model), unseen.scores(candidate), max_drop=0.0, level=level)
    released = forgotten.decision == "holds" and mended.treatment > mended.control
    return FineTuned(
        candidate=candidate, tuned=tuned, frozen=after, regression=forgotten, mended=mended, released=released,
        losses=losses, says=tuple(_says(forgotten, mended, len(shown.targets), released=released)),
    )  # fmt: skip


def _fit_together(bad: Reference, replay: Reference, regression: Reference) -> None:
    if len(bad.targets) < 4 or not len(replay.targets) or not len(regression.targets):
        raise NetdynoError(
            f"cannot fine-tune on {len(bad.targets)} bad cases",
            because=f"there are {len(replay.targets)} rows to replay and {len(regression.targets)} that must not be lost",
            hint="collect four bad cases at least, and give rows that the model gets right for both sets",
        )
    known = set(map(_row, replay.inputs[0]))
    shared = sum(_row(one) in known for one in regression.inputs[0])
    if shared:
        raise NetdynoError(
            "the regression set is no judge", because=f"{shared} of its rows are replayed, and so trained on",
            hint="split what you have: half to replay, half to judge on",
        )  # fmt: skip


def _row(row: Tensor) -> bytes:
    return bytes(row.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())


def last_layers(model: nn.Module, count: int) -> tuple[str, ...]:
    """The names of the last modules that have weights of their own, norms left out: those keep what they know of the data."""
    named = [
        name
        for name, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
        and not isinstance(module, nn.modules.batchnorm._BatchNorm | nn.LayerNorm | nn.GroupNorm)
    ]
    if not 1 <= count < len(named):
        raise NetdynoError(
            f"cannot tune the last {count} layers", because=f"the model has {len(named)} layers with weights",
            hint=f"choose 1 to {max(1, len(named) - 1)}: to tune all of them is a training, not a repair",
        )  # fmt: skip
    return tuple(named[-count:])


def frozen(model: nn.Module, tuned: Sequence[str]) -> str:
    """The hash of every parameter and buffer outside the layers that are tuned."""
    return fingerprint((name, tensor) for name, tensor in state(model) if name.rpartition(".")[0] not in tuned)


def _mixed(
    bad: Reference, replay: Reference, batch: int, replayed: float, chance: torch.Generator
) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
    """Batches of bad cases with replayed rows among them, without end; every row has its turn before one comes again."""
    again = max(1, round(batch * replayed))
    cases, known = _turns(len(bad.targets), chance), _turns(len(replay.targets), chance)
    while True:
        new = [next(cases) for _ in range(max(1, batch - again))]
        old = [next(known) for _ in range(again)]
        inputs = tuple(torch.cat((one[new], two[old])) for one, two in zip(bad.inputs, replay.inputs, strict=True))
        yield inputs, torch.cat((bad.targets[new], replay.targets[old]))


def _turns(count: int, chance: torch.Generator) -> Iterator[int]:
    while True:
        yield from torch.randperm(count, generator=chance).tolist()


def _trained(
    model: nn.Module,
    tuned: Sequence[str],
    batches: Iterator[tuple[tuple[Tensor, ...], Tensor]],
    *,
    loss: Callable[[Any, Tensor], Tensor],
    learning_rate: float,
    updates: int,
) -> tuple[float, ...]:
    """The losses of each update; every parameter asks for gradients afterwards as it did before."""
    asked = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    for parameter, _ in asked:
        parameter.requires_grad = False
    layers = dict(model.named_modules())
    moving = [one for name in tuned for one in layers[name].parameters(recurse=False)]
    for one in moving:
        one.requires_grad = True
    optimizer = torch.optim.AdamW(moving, lr=learning_rate, weight_decay=0.0)
    losses = []
    try:
        with evaluating(model), torch.enable_grad():
            for inputs, targets in itertools.islice(batches, updates):
                value = loss(model(*inputs), targets)
                optimizer.zero_grad(set_to_none=True)
                value.backward()
                optimizer.step()
                losses.append(float(value.detach()))
    finally:
        for parameter, wanted in asked:
            parameter.requires_grad = wanted
            parameter.grad = None
    return tuple(losses)


def _says(forgotten: Accuracy, mended: Accuracy, shown: int, *, released: bool) -> Iterator[str]:
    yield f"regression set: {forgotten.says}"
    yield (
        f"learned from {shown} bad cases; of {mended.rows} others {mended.won} are right now. They were chosen for being wrong, so some would be "
        "right again by any change: judge on fresh rows before you call it better"
    )
    if released:
        yield "may be released; the model before is untouched"
        return
    why = {
        "broken": "it forgets what was right",
        "cannot tell": f"the regression set is too small to tell{f': about {forgotten.needs:,} rows would' if forgotten.needs else ''}",
        "holds": "it mends none of the bad cases that it has not seen",
    }[forgotten.decision]
    yield f"not released: {why}"
