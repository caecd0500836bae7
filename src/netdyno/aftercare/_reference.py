"""Labelled rows that a changed model must not answer worse: the gate of everything that is done after the release."""

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.records.deployment import Accuracy
from netdyno.targets.release import Release
from netdyno.verdicts.paired_accuracy import judged

# Rows of one forward: a reference set need not fit into memory at once.
ROWS = 256


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Inputs with their targets. `quality` gives one number per row, higher is better; by default what a Release takes."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    quality: Callable[[Any, Any], Tensor] | None = None

    def scores(self, model: nn.Module) -> list[float]:
        """One number per row, of the model in eval mode; it is left as it was."""
        release = Release(model=lambda: model, example=lambda: self.inputs, quality=self.quality, name="reference")
        with evaluating(model), torch.no_grad():
            return [
                float(one)
                for at in range(0, len(self.targets), ROWS)
                for one in release.rows_right(
                    model(*(part[at : at + ROWS] for part in self.inputs)), self.targets[at : at + ROWS]
                )
            ]


def gate(control: list[float], treatment: list[float], *, max_drop: float, level: float) -> Accuracy:
    """The paired look at both: it holds only where the whole interval of the drop lies below `max_drop`."""
    return judged(control, treatment, limit=max_drop, level=level)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode inside; afterwards each is in its own again, for they need not agree."""
    with modes_kept(model):
        model.eval()
        yield


@contextmanager
def modes_kept(model: nn.Module) -> Iterator[None]:
    """Whatever the inside switches, each module is in its own mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def fingerprint(tensors: Iterable[tuple[str, Tensor]]) -> str:
    """A hash of names, types, shapes and bytes: equal only where nothing differs."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors, key=lambda item: item[0]):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters and buffers by name, those that are not saved too."""
    yield from model.named_parameters()
    yield from model.named_buffers()


def copied(model: nn.Module) -> nn.Module:
    """A model of its own with the same weights."""
    return copy.deepcopy(model)
