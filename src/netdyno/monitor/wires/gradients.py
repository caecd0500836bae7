"""The gradients of an optimizer as one number: finite only if all of them are. On a device it arrives later."""

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

# Norms that are under way from a device; who waits for more than this has a device that hangs.
MOST_UNDER_WAY = 8
KINDS = ("cpu", "cuda")
# The backward pass reaches the first parameters last. Of so many the smallest is read in each update, if it is no larger than that.
LAST, READ = 4, 4096
# So few tensors and numbers are read in some ten microseconds, as much as hearing of the step costs: at each update.
SMALL_TENSORS, SMALL_NUMBERS = 16, 100_000


class Norm(NamedTuple):
    """The total norm, the update it belongs to (those that were over when it was taken), and its optimizer."""

    value: float
    update: int
    optimizer: Any


class Bad(NamedTuple):
    """Gradients that are not finite: the one that the backward pass reached first, how many, of how many."""

    name: str | None
    many: int
    of: int


class Gradients:
    """Takes total norms, one kernel per list, and reads them when they are there."""

    def __init__(self) -> None:
        self._lists: dict[int, tuple[int, list[Any], bool]] = {}
        self._under_way: deque[tuple[Any, Any, int, Any]] = deque()

    def take(self, optimizer: Any, update: int) -> Norm | None:
        """The norm now; None where there is none, and where it will arrive later: see `arrived`."""
        found = [g for p in self._known(optimizer)[1] if (g := p.grad) is not None]
        if not found:
            return None
        if found[0].requires_grad:  # of a backward pass that can itself be differentiated
            found = [g.detach() for g in found]
        if self.small(optimizer) and (value := _at_once(found)) is not None:
            return Norm(value, update, optimizer)
        total = total_norm(found)
        if total.is_cpu:
            return Norm(total.item(), update, optimizer)
        if total.is_cuda and len(self._under_way) < MOST_UNDER_WAY:
            self._copy(total, update, optimizer)
        return None

    def _copy(self, total: Any, update: int, optimizer: Any) -> None:
        copy = torch.empty((), dtype=total.dtype, pin_memory=True)
        copy.copy_(total, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._under_way.append((event, copy, update, optimizer))

    @property
    def under_way(self) -> bool:
        """Whether a device still owes one."""
        return bool(self._under_way)

    def arrived(self) -> Norm | None:
        """The oldest norm that a device has finished since; nothing waits for it."""
        if self._under_way and self._under_way[0][0].query():
            _, copy, update, optimizer = self._under_way.popleft()
            return Norm(copy.item(), update, optimizer)
        return None

    def small(self, optimizer: Any) -> bool:
        """Whether a look costs next to nothing."""
        return self._known(optimizer)[2]

    def sentinel(self, optimizer: Any) -> Callable[[], bool] | None:
        """Asks whether one small gradient is finite, of those that come last: some microseconds, whatever the model.

        None where there is none that can be read without waiting.
        """
        found = [p for p in self._known(optimizer)[1] if p.requires_grad][:LAST]
        one = min(found, key=lambda p: p.numel(), default=None)
        if one is None or not one.is_cpu or one.numel() > READ or one.grad is None or one.grad.is_sparse:
            return None

        def finite() -> bool:
            gradient = one.grad
            if gradient is None:  # it takes no part in this update
                return True
            try:
                total = sum(gradient.tolist()) if gradient.dim() == 1 else gradient.sum().item()
                return bool(total - total == 0.0)
            except (RuntimeError, NotImplementedError):
                return False

        return finite

    def _known(self, optimizer: Any) -> tuple[int, list[Any], bool]:
        groups = optimizer.param_groups
        count = len(groups[0]["params"]) if len(groups) == 1 else sum(len(group["params"]) for group in groups)
        known = self._lists.get(id(optimizer))
        if known is None or known[0] != count:
            # Their devices never change within a list; what is neither here nor on a GPU is not looked at.
            chosen = [p for group in groups for p in group["params"] if p.device.type in KINDS]
            known = self._lists[id(optimizer)] = (count, chosen, _small(chosen))
        return known


def _small(parameters: list[Any]) -> bool:
    return len(parameters) <= SMALL_TENSORS and sum(p.numel() for p in parameters if p.is_cpu) <= SMALL_NUMBERS


def _at_once(gradients: list[Any]) -> float | None:
    """Few norms are added up quicker here than by torch; None where they are not of one kind."""
    if not gradients[0].is_cpu or gradients[0].is_sparse:
        return None
    try:
        return math.hypot(*torch.stack(torch._foreach_norm(gradients)).tolist())
    except (RuntimeError, NotImplementedError):
        return None


def total_norm(gradients: list[Any]) -> Any:
    """One tensor on the gradients' device (the first one's, where there are several)."""
    try:
        return _norm(torch._foreach_norm(gradients))
    except (RuntimeError, NotImplementedError):  # sparse ones, or several kinds
        dense = [g._values() if g.is_sparse else g for g in gradients]
        norms = [torch.linalg.vector_norm(each) for each in dense]
        return _norm([each.to(norms[0].device, torch.float32) for each in norms])


def _norm(norms: Any) -> Any:
    return torch.linalg.vector_norm(torch.stack(norms)) if len(norms) > 1 else norms[0]


def bad(optimizer: Any, names: Callable[[Any], str]) -> Bad | None:
    """The gradients that are not finite. A backward pass goes from the last parameter to the first."""
    with_gradient = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    values = [p.grad._values() if p.grad.is_sparse else p.grad for p in with_gradient]
    wrong = [p for p, value in zip(with_gradient, values, strict=True) if not bool(torch.isfinite(value).all())]
    return Bad(names(wrong[-1]), len(wrong), len(with_gradient)) if wrong else None


def names_of(models: dict[str, Any], optimizer: Any) -> Callable[[Any], str]:
    """Names parameters as their models do; those of nobody by their place in the optimizer."""
    known: dict[int, str] = {}
    for group, settings in enumerate(optimizer.param_groups):
        known |= {id(p): f"parameter {at} of group {group}" for at, p in enumerate(settings["params"])}
    for model_name, model in models.items():
        start = f"{model_name}." if len(models) > 1 else ""
        known |= {id(p): start + name for name, p in model.named_parameters()}
    return lambda parameter: known.get(id(parameter), "an unknown parameter")
