"""Whether each patch fires: tried once at the start, on things that compute nothing and draw no global random numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from . import asides, steps
from .account import CLIP, GAP, LOSS, OPTIMIZER

if TYPE_CHECKING:
    from .observe import Observer

SILENT = "it was called, and the observer did not hear of it"


class Trial(NamedTuple):
    """A patch point, a call that must pass it, and whether the observer heard."""

    point: str
    call: Callable[[], Any]
    heard: Callable[[], bool]


def points(trial: "Observer") -> dict[str, dict[str, Any]]:
    """Every patch point with its answer. `trial` is thrown away; what does not fire is left to the line samples.

    No backward pass is run: a process that has run one cannot fork and train in the child. Nor is anything called
    that imports torch's compiler, which takes a second, and most helper processes of a script never need it.
    """
    answers: dict[str, dict[str, Any]] = {}
    with _underneath():
        trial.apply()
        try:
            answers.update({name: {"ok": False, "why": why} for name, why in trial.missing.items()})
            for each in _trials(trial):
                if each.point not in answers:
                    answers[each.point] = _answer(trial, each)
        finally:
            trial.close()
    return answers


def _answer(trial: "Observer", each: Trial) -> dict[str, Any]:
    trial.events.clear()
    trial.account.current = -1
    try:
        each.call()
        fired = each.heard()
    except Exception as error:
        return {"ok": False, "why": f"{type(error).__name__}: {error}"}
    return {"ok": fired, "why": None if fired else SILENT}


def _silent(*args: Any, **kwargs: Any) -> None:
    """Stands for what would compute, write a file or import much."""


def _made(self: Any, params: Any, lr: float = 1e-3) -> None:
    """Stands for a constructor."""


@contextmanager
def _underneath() -> Iterator[None]:
    """Put silent functions where the patches will find their originals."""
    import torch
    import torch.nn.functional as F
    from torch.amp.grad_scaler import GradScaler
    from torch.optim.lr_scheduler import LRScheduler

    places = [
        (torch.autograd, "backward"),
        (torch.autograd, "grad"),
        (torch.optim.Optimizer, "zero_grad"),
        (torch.nn.Module, "zero_grad"),
        (torch, "save"),
        (LRScheduler, "step"),
        *((GradScaler, name) for name in ("unscale_", "step", "update")),
        *((F, name) for name in asides.LOSSES),
        *((torch.nn.utils, name) for name in ("clip_grad_norm_", "clip_grad_value_")),
    ]
    kept = [(owner, name, vars(owner)[name]) for owner, name in places if name in vars(owner)]
    constructor = vars(torch.optim.SGD)["__init__"]
    try:
        for owner, name, _ in kept:
            setattr(owner, name, _copy(_silent))
        torch.optim.SGD.__init__ = _copy(_made)  # type: ignore[method-assign]
        yield
    finally:
        torch.optim.SGD.__init__ = constructor  # type: ignore[method-assign]
        for owner, name, original in kept:
            setattr(owner, name, original)


def _copy(function: Any) -> Any:
    from types import FunctionType

    return FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)


def _trials(trial: "Observer") -> Iterator[Trial]:
    import torch
    import torch.nn.functional as F
    from torch.amp.grad_scaler import GradScaler
    from torch.optim.lr_scheduler import LRScheduler

    one = torch.ones(())
    events, account = trial.events, trial.account
    optimizer = _optimizer()
    yield Trial("module call", lambda: torch.nn.Identity()(one), lambda: steps.FORWARD in events)
    yield from _loader_trials(trial)
    yield Trial("backward", lambda: torch.ones((), requires_grad=True).backward(), lambda: steps.BACKWARD in events)
    yield Trial("autograd.grad", lambda: torch.autograd.grad(one, one), lambda: steps.GRAD in events)
    yield Trial("optimizer step", optimizer.step, lambda: trial.updates == 1)
    yield Trial(
        "optimizer made", lambda: torch.optim.SGD([one], lr=1.0), lambda: "lr" in trial.view.explicit["optimizer"]
    )
    yield Trial("Optimizer.zero_grad", optimizer.zero_grad, lambda: steps.ZERO_GRAD in events)
    yield Trial("Module.zero_grad", lambda: torch.nn.Identity().zero_grad(), lambda: steps.ZERO_GRAD in events)
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        clip = getattr(torch.nn.utils, name)
        yield Trial(name, lambda clip=clip: clip([], 1.0), lambda: account.current == GAP + CLIP)  # type: ignore[misc]
    scheduler = LRScheduler.__new__(LRScheduler)
    yield Trial("scheduler", scheduler.step, lambda: steps.SCHEDULER in events)
    scaler = GradScaler.__new__(GradScaler)
    yield Trial("GradScaler.unscale_", lambda: scaler.unscale_(optimizer), lambda: steps.UNSCALE in events)
    yield Trial("GradScaler.step", lambda: scaler.step(optimizer), lambda: steps.SKIP in events)
    yield Trial("GradScaler.update", scaler.update, lambda: account.current == GAP + OPTIMIZER)
    for name in ("item", "tolist", "__bool__", "__float__", "__int__"):
        read = getattr(torch.Tensor, name)
        yield Trial(f"Tensor.{name}", lambda read=read: read(one), lambda: steps.SYNC in events)  # type: ignore[misc]
    yield Trial("save", lambda: torch.save(None, ""), lambda: steps.SAVE in events)
    for name in asides.LOSSES:
        loss = getattr(F, name)
        yield Trial(name, lambda loss=loss: loss(one, one), lambda: account.current == GAP + LOSS)  # type: ignore[misc]


def _loader_trials(trial: "Observer") -> Iterator[Trial]:
    import torch
    from torch.utils.data import DataLoader

    made: list[Any] = []

    def make() -> None:
        # A generator of its own: a loader draws its seed from the global one otherwise.
        made.append(DataLoader([0], generator=torch.Generator()))  # type: ignore[arg-type]

    def begin() -> None:
        made.append(iter(made[0]))

    yield Trial("loader made", make, lambda: len(trial.facts.loaders) == 1)
    yield Trial("loader begun", begin, lambda: steps.LOADER in trial.events)
    yield Trial("batch", lambda: next(made[1]), lambda: steps.DATA in trial.events)


def _optimizer() -> Any:
    """One that does nothing, made without its constructor, which imports torch's compiler."""
    import torch

    class Still(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            pass

    still = Still.__new__(Still)
    still.__setstate__({"defaults": {}, "state": {}, "param_groups": []})
    return still
