"""How far the running statistics of batch norms lie from those of all training data, for one momentum or another.

Nothing is said of speed: a momentum changes none of it.
"""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.knobs._layers import BatchNorm
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch


class Strayed(NamedTuple):
    """Errors with one momentum, averaged over the second half of the updates: the median over channels and the worst channel.

    `mean` is in deviations of the channel, `variance` a share of the channel's variance.
    """

    momentum: float
    mean: float
    worst_mean: float
    variance: float
    worst_variance: float


def strayed(
    model: nn.Module,
    batches: Sequence[Batch],
    *,
    momenta: Iterable[float] = (0.1, 0.01),
    updates: int | None = None,
    forward: Callable[[nn.Module, Batch], Any] | None = None,
) -> tuple[Strayed, ...]:
    """Sends the batches through copies of the model whose weights stand still, and compares with the statistics of all batches together.

    `updates` forward passes in turn, by default one for each batch. Too few, and a small momentum still holds its start.
    """
    forward = forward or _forward
    updates = updates or len(batches)
    with kept_randomness(), torch.no_grad():
        truth = _population(model, batches, forward)
        return tuple(
            _with(momentum, model=model, batches=batches, updates=updates, forward=forward, truth=truth)
            for momentum in momenta
        )


Statistics = dict[str, tuple[Tensor, Tensor]]


def _population(model: nn.Module, batches: Sequence[Batch], forward: Callable[[nn.Module, Batch], Any]) -> Statistics:
    """Mean and variance of what each batch norm receives, over all values of all batches."""
    looked = copy.deepcopy(model).train()
    sums: dict[str, list[Tensor]] = {}

    def adding(name: str) -> Callable[[nn.Module, Any], None]:
        def add(_module: nn.Module, inputs: Any) -> None:
            values = inputs[0].double().movedim(1, 0).flatten(1)
            found = [torch.tensor(float(values.shape[1])), values.sum(1), values.square().sum(1)]
            sums[name] = [a + b for a, b in zip(sums[name], found, strict=True)] if name in sums else found

        return add

    for name, module in _norms(looked):
        module.register_forward_pre_hook(adding(name))
    for batch in batches:
        forward(looked, batch)
    return {name: (total / n, squares / n - (total / n) ** 2) for name, (n, total, squares) in sums.items()}


def _with(
    momentum: float,
    *,
    model: nn.Module,
    batches: Sequence[Batch],
    updates: int,
    forward: Callable[[nn.Module, Batch], Any],
    truth: Statistics,
) -> Strayed:
    looked = copy.deepcopy(model).train()
    norms = dict(_norms(looked))
    for norm in norms.values():
        norm.momentum = momentum
        norm.reset_running_stats()
    taken: list[tuple[Tensor, Tensor]] = []
    for update in range(updates):
        forward(looked, batches[update % len(batches)])
        if update >= updates // 2:
            taken.append(_errors(norms, truth))
    means, variances = (torch.stack(part).mean(0) for part in zip(*taken, strict=True))
    return Strayed(
        momentum, float(means.median()), float(means.max()), float(variances.median()), float(variances.max())
    )


def _errors(norms: dict[str, Any], truth: Statistics) -> tuple[Tensor, Tensor]:
    """How far mean and variance of every channel of every norm are off."""
    means, variances = [], []
    for name, (mean, variance) in truth.items():
        spread = variance.clamp_min(norms[name].eps)
        means.append((norms[name].running_mean.double() - mean).abs() / spread.sqrt())
        variances.append((norms[name].running_var.double() - variance).abs() / spread)
    return torch.cat(means), torch.cat(variances)


def _norms(model: nn.Module) -> list[tuple[str, Any]]:
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, BatchNorm) and module.track_running_stats
    ]


def _forward(model: nn.Module, batch: Batch) -> Any:
    return model(*batch[:-1])
