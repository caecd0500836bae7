"""Several losses, or several optimizers, under one gradient scaler, in the order that is right.

Every loss is scaled before its backward pass; every optimizer is unscaled once, clipped, and stepped once; the scaler is updated
once, at the end, for all: an update in between would let one half of the step run under another scale.

>>> import torch
>>> model = torch.nn.Linear(2, 1)
>>> sgd = torch.optim.SGD(model.parameters(), lr=0.1)
>>> together([model(torch.ones(1, 2)).sum(), model.weight.square().sum()], [sgd])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Optimizer

from netdyno.errors import NetdynoError
from netdyno.targets.subject import parameters_of


@dataclass(frozen=True, kw_only=True)
class Part:
    """One side of a training with several: `loss` is called when its turn has come, `clip` is the largest norm of its gradient."""

    loss: Callable[[], Tensor]
    optimizer: Optimizer
    clip: float | None = None


def together(
    losses: Sequence[Tensor],
    optimizers: Sequence[Optimizer],
    *,
    scaler: torch.amp.GradScaler | None = None,
    clip: float | None = None,
) -> None:
    """One update from several losses that share a forward pass: their gradients add up, then every optimizer steps once."""
    _refuse_twice(optimizers)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    for left, loss in zip(range(len(losses) - 1, -1, -1), losses, strict=True):
        # The graph that losses share is needed until the last of them has passed through it.
        _scaled(loss, scaler).backward(retain_graph=left > 0)
    for optimizer in optimizers:
        _step(optimizer, scaler, clip)
    if scaler is not None:
        scaler.update()


def in_turns(parts: Sequence[Part], *, scaler: torch.amp.GradScaler | None = None) -> tuple[Tensor, ...]:
    """One update of each part after the other, as a generator and its discriminator train; gives their losses.

    A loss is computed when its part has its turn, with what the parts before it have become. Gradients that a loss leaves in weights
    of another part are cleared before that part's own backward pass.
    """
    _refuse_twice([part.optimizer for part in parts])
    losses = []
    for part in parts:
        loss = part.loss()
        part.optimizer.zero_grad(set_to_none=True)
        _scaled(loss, scaler).backward()
        _step(part.optimizer, scaler, part.clip)
        losses.append(loss.detach())
    if scaler is not None:
        scaler.update()
    return tuple(losses)


def _scaled(loss: Tensor, scaler: torch.amp.GradScaler | None) -> Tensor:
    return loss if scaler is None else scaler.scale(loss)


def _step(optimizer: Optimizer, scaler: torch.amp.GradScaler | None, clip: float | None) -> None:
    if scaler is not None and _moved(optimizer):
        scaler.unscale_(optimizer)
    if clip is not None:
        torch.nn.utils.clip_grad_norm_(parameters_of(optimizer), clip)
    if scaler is None:
        optimizer.step()
    elif _moved(optimizer):
        scaler.step(optimizer)


def _moved(optimizer: Optimizer) -> bool:
    """True when there is a gradient at all: a scaler refuses an optimizer without one."""
    return any(parameter.grad is not None for parameter in parameters_of(optimizer))


def _refuse_twice(optimizers: Sequence[Optimizer]) -> None:
    if len({id(optimizer) for optimizer in optimizers}) < len(optimizers):
        raise NetdynoError(
            "an optimizer may step once in an update",
            because=f"one of the `{len(optimizers)}` is named twice, and its gradients would be unscaled twice",
            hint="add the losses up that belong to it, with `together`",
        )
