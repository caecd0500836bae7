"""Backward passes, optimizers and what stands around them: clipping, clearing, scaling, schedules."""

import inspect
import sys
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import asleep, steps
from .account import BACKWARD, CLIP, OPTIMIZER, SCHEDULER, ZERO_GRAD
from .frames import user_line
from .patches import Patches

if TYPE_CHECKING:
    from .observe import Observer


def patch_counting(patches: Patches, observer: "Observer") -> list[Any]:
    """The least that counts updates and reads losses. Gives the handles of torch's own hooks."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    patches.replace("backward", torch.autograd, "backward", lambda original: _backward(observer, original))
    return [
        register_optimizer_step_pre_hook(observer.step_begins),
        register_optimizer_step_post_hook(observer.step_ends),
    ]


def patch(patches: Patches, observer: "Observer") -> None:
    """Everything else around an update."""
    import torch
    from torch.optim import lr_scheduler, optimizer

    patches.replace("autograd.grad", torch.autograd, "grad", lambda original: _grad(observer, original))
    for owner in (optimizer.Optimizer, torch.nn.Module):
        point = f"{owner.__name__}.zero_grad"
        patches.replace(
            point, owner, "zero_grad", lambda original: _method(observer, original, ZERO_GRAD, steps.ZERO_GRAD)
        )
    # The same function stands in two modules, from either of which frameworks import it by name.
    for name in ("clip_grad_norm_", "clip_grad_value_", "get_total_norm", "clip_grads_with_norm_"):
        for module in (torch.nn.utils.clip_grad, torch.nn.utils):
            if hasattr(module, name) or module is torch.nn.utils:
                patches.replace(name, module, name, lambda original: _clip(observer, original))
    schedulers = [kind for kind in vars(lr_scheduler).values() if inspect.isclass(kind) and "step" in vars(kind)]
    for kind in schedulers:
        if kind.__name__ != "LRScheduler" and not hasattr(kind, "get_last_lr"):
            continue
        patches.replace("scheduler", kind, "step", lambda original: _schedule(observer, original))
    _patch_constructors(patches, observer)
    _patch_scaler(patches, observer)


def _backward(observer: "Observer", original: Any) -> Any:
    is_traced, sleep = observer.is_traced, observer.sleep

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced():
            return original(tensors, *args, **kwargs)
        if sleep.on and not observer.backwards and get_ident() == observer.training_thread:
            return asleep.backward(observer, original, tensors, args, kwargs)
        if not observer.begin_backward(tensors):
            return original(tensors, *args, **kwargs)
        try:
            result = original(tensors, *args, **kwargs)
        except BaseException:
            observer.end_backward(None)
            raise
        observer.end_backward(tensors)
        return result

    return backward


def _grad(observer: "Observer", original: Any) -> Any:
    account, events, is_traced = observer.account, observer.events, observer.is_traced

    def grad(*args: Any, **kwargs: Any) -> Any:
        if is_traced() or observer.off or observer.backwards or not observer.candidate():
            return original(*args, **kwargs)
        events.append(steps.GRAD)
        observer.grads += 1
        account.push(BACKWARD)
        observer.backwards += 1
        try:
            return original(*args, **kwargs)
        finally:
            observer.backwards -= 1
            account.pop()

    return grad


def _method(observer: "Observer", original: Any, phase: int, token: int) -> Any:
    account, events, is_traced = observer.account, observer.events, observer.is_traced

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_traced() or observer.off or account.current == phase or not observer.candidate():
            return original(self, *args, **kwargs)
        events.append(token)
        account.push(phase)
        try:
            return original(self, *args, **kwargs)
        finally:
            account.pop()

    return method


def _clip(observer: "Observer", original: Any) -> Any:
    account, events, is_traced = observer.account, observer.events, observer.is_traced

    def clip(*args: Any, **kwargs: Any) -> Any:
        if is_traced() or observer.off or account.current == CLIP or not observer.candidate():
            return original(*args, **kwargs)
        events.append(steps.CLIP)
        if observer.scaled:
            observer.facts.clipped_scaled(user_line(sys._getframe(1)))
        account.push(CLIP)
        try:
            return original(*args, **kwargs)
        finally:
            account.pop()

    return clip


def _schedule(observer: "Observer", original: Any) -> Any:
    account, events = observer.account, observer.events

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A scheduler's constructor makes a step of its own; and some schedulers step others.
        if (
            observer.off
            or account.current == SCHEDULER
            or getattr(self, "_is_initial", False)
            or not observer.candidate()
        ):
            return original(self, *args, **kwargs)
        events.append(steps.SCHEDULER)
        if observer.looking:
            observer.facts.places.note("schedulers")
        account.aside(SCHEDULER)
        try:
            return original(self, *args, **kwargs)
        finally:
            account.pop()

    return step


def _patch_constructors(patches: Patches, observer: "Observer") -> None:
    import torch
    from torch.optim.optimizer import Optimizer

    kinds = [kind for kind in vars(torch.optim).values() if inspect.isclass(kind) and issubclass(kind, Optimizer)]
    for kind in kinds:
        if "__init__" in vars(kind):
            patches.replace("optimizer made", kind, "__init__", partial(_made, observer, kind))


def _made(observer: "Observer", kind: type, original: Any) -> Any:
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        # AdamW passes all its arguments on to Adam: only the outermost constructor hears what the author wrote.
        if observer.making or kind.__name__ == "Optimizer":
            original(self, *args, **kwargs)
            observer.made_optimizer(self)
            return
        observer.making = True
        observer.facts.places.note("optimizers")
        try:
            arguments = _arguments(signature, (self, *args), kwargs)
            if arguments is None:
                original(self, *args, **kwargs)
                return
            observer.view.explicit["optimizer"].update(set(arguments) - {"params"})
            changed = dict(arguments)
            for change in observer.view.optimizer_arguments:
                changed = change(type(self), changed)
            if changed == arguments:
                original(self, *args, **kwargs)
            else:
                original(self, **changed)
        finally:
            observer.making = False

    return __init__


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    try:
        bound = dict(signature.bind(*args, **kwargs).arguments)
    except TypeError:  # the script's own mistake: torch will say so
        return None
    bound.pop("self", None)
    return bound


def _patch_scaler(patches: Patches, observer: "Observer") -> None:
    from torch.amp.grad_scaler import GradScaler

    account, events, facts = observer.account, observer.events, observer.facts

    def scale(original: Any) -> Any:
        def scale(self: Any, outputs: Any) -> Any:
            result = original(self, outputs)
            if observer.candidate() and self.is_enabled():
                observer.scaled = True
                observer.unscaled_loss = (result, outputs)
                facts.scaler_used = True
            return result

        return scale

    def unscale(original: Any) -> Any:
        def unscale_(self: Any, optimizer: Any) -> Any:
            if observer.off or not observer.candidate():
                return original(self, optimizer)
            events.append(steps.UNSCALE)
            account.push(OPTIMIZER)
            try:
                return original(self, optimizer)
            finally:
                observer.scaled = False
                account.pop()

        return unscale_

    def step(original: Any) -> Any:
        def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if not observer.candidate():
                return original(self, optimizer, *args, **kwargs)
            before = observer.steps_begun
            account.push(OPTIMIZER)
            try:
                return original(self, optimizer, *args, **kwargs)
            finally:
                account.pop()
                observer.scaled = False
                if observer.steps_begun == before and sys.exc_info()[0] is None:
                    observer.skipped(optimizer)

        return step

    def update(original: Any) -> Any:
        def update(self: Any, *args: Any, **kwargs: Any) -> Any:
            if observer.off or not observer.candidate():
                return original(self, *args, **kwargs)
            account.push(OPTIMIZER)
            try:
                return original(self, *args, **kwargs)
            finally:
                account.pop()

        return update

    for name, make in (("scale", scale), ("unscale_", unscale), ("step", step), ("update", update)):
        patches.replace(f"GradScaler.{name}", GradScaler, name, make)
