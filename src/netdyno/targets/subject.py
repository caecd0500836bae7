"""A target made live: model, optimizer and data, ready to step."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.targets.feed import Feed

Batch = Any  # what the loader yields: usually a tuple of tensors, target last
Placement = Callable[[Batch], Batch]
Around = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One live copy of a target. Interventions yield changed copies made with `replace`.

    `place` runs on every batch between loader and model, in order: device copy, memory format,
    batch transforms. `around_turn` are global switches, entered before the clock starts and left
    after it stops; `around_forward` wraps forward and loss only, as autocast wants it.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    feed: Feed
    forward: Callable[[nn.Module, Batch], Any]
    loss: Callable[[Any, Batch], Tensor]
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    place: tuple[Placement, ...] = ()
    augment: tuple[Placement, ...] = ()  # random transforms of placed batches, in training only
    around_turn: tuple[Around, ...] = ()
    around_forward: tuple[Around, ...] = ()
    around_eval: tuple[Around, ...] = (torch.no_grad,)
    called: Callable[..., Any] | None = None  # stands in for the model in forward, for instance its compiled form
    scaler: torch.amp.GradScaler | None = None
    set_to_none: bool = True
    threads: int | None = None  # what the original program sets; `around_turn` holds it
    log: Callable[[nn.Module, float], None] | None = None

    @property
    def callee(self) -> Callable[..., Any]:
        """What `forward` calls: the model, or what an intervention put before it."""
        return self.called if self.called is not None else self.model

    def placed(self, batch: Batch) -> Batch:
        """The batch as the model receives it in evaluation."""
        for move in self.place:
            batch = move(batch)
        return batch

    def fed(self, batch: Batch) -> Batch:
        """The batch as the model receives it in training: placed, then transformed at random."""
        batch = self.placed(batch)
        for transform in self.augment:
            batch = transform(batch)
        return batch

    def with_place(self, *moves: Placement) -> "Subject":
        """A copy that runs `moves` on each batch after all others."""
        return replace(self, place=(*self.place, *moves))

    def with_turn(self, *switches: Around) -> "Subject":
        """A copy that holds `switches` while it steps."""
        return replace(self, around_turn=(*self.around_turn, *switches))

    def with_forward(self, *contexts: Around) -> "Subject":
        """A copy whose forward and loss run inside `contexts`."""
        return replace(self, around_forward=(*self.around_forward, *contexts))


def target_of(batch: Batch) -> Any:
    """What the loss compares with: the last part of a tuple or list; of any other batch, a dict say, all of it."""
    return batch[-1] if isinstance(batch, tuple | list) else batch


def tensors(batch: Batch) -> list[Tensor]:
    """All tensors of a batch, in a fixed order, whatever it is made of."""
    leaves, _ = torch.utils._pytree.tree_flatten(batch)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def mapped(batch: Batch, move: Callable[[Tensor], Tensor]) -> Batch:
    """The same batch with `move` applied to each of its tensors."""
    return torch.utils._pytree.tree_map_only(Tensor, move, batch)


def to_device(device: torch.device, *, non_blocking: bool = False) -> Placement:
    """A placement that copies each tensor of a batch to `device`."""

    def move(batch: Batch) -> Batch:
        return mapped(batch, lambda tensor: tensor.to(device, non_blocking=non_blocking))

    return move


def parameters_of(optimizer: torch.optim.Optimizer) -> Sequence[nn.Parameter]:
    """All parameters that `optimizer` updates, in group order."""
    groups: Iterable[dict[str, Any]] = optimizer.param_groups
    return [parameter for group in groups for parameter in group["params"]]
