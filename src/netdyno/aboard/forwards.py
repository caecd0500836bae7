"""Top-level module calls: training, evaluation, recomputation, loss modules; and where knobs take hold of a forward."""

import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import steps
from .account import EVALUATION, FORWARD, LOSS, RECOMPUTE
from .patches import Patches
from .reach import is_compiled
from .vitals._base import Call

if TYPE_CHECKING:
    from .observe import Observer


def patch(patches: Patches, observer: "Observer") -> None:
    """Replace `Module.__call__` by one that looks only at calls that are in no other; of `observer.narrowed` classes, where some are."""
    import torch

    for kind in observer.narrowed or (torch.nn.Module,):
        patches.replace("module call", kind, "__call__", _maker(observer))


def narrow(patches: Patches, observer: "Observer") -> None:
    """From here on see only modules of classes that have been called at top level: those within them pass nothing of ours.

    Forty modules in a model are forty calls that came by to learn that they are nobody's business. Compiled and scripted modules
    stay as they are: what was compiled would be compiled again.
    """
    import torch

    called = [module for known in list(observer.facts.known.values()) if (module := known.ref()) is not None]
    if any(is_compiled(module) or isinstance(module, torch.jit.ScriptModule) for module in called):
        return
    kinds = {type(module) for module in called}
    # What inherits from another of them without a call of its own is reached by that one's.
    outer = {kind for kind in kinds if "__call__" in vars(kind) or kinds.isdisjoint(kind.__mro__[1:])}
    if outer and outer != set(observer.narrowed):
        _move(patches, observer, outer)


def widen(patches: Patches, observer: "Observer") -> None:
    """See all modules again."""
    if observer.narrowed:
        _move(patches, observer, set())


def _move(patches: Patches, observer: "Observer", kinds: set[type]) -> None:
    import torch

    for kind in observer.narrowed or (torch.nn.Module,):
        patches.drop(kind, ("__call__",))
    observer.narrowed = tuple(kinds)
    patch(patches, observer)


def _maker(observer: "Observer") -> Any:
    import torch

    is_traced = torch.compiler.is_dynamo_compiling

    def make(original: Any) -> Any:
        outermost = Outermost(observer, original).call

        # Modules within modules come here most often by far. Handing on what came as it came spares a copy of it.
        def __call__(*args: Any, **kwargs: Any) -> Any:  # noqa: N807  it is one
            # First the question whose answer a tracer knows: the rest of this function is then not in its graph.
            if is_traced() or observer.inside:
                return original(*args, **kwargs) if kwargs else original(*args)
            return outermost(args[0], args[1:], kwargs)

        return __call__

    return make


class Outermost:
    """What is done around a module call that is in no other."""

    def __init__(self, observer: "Observer", original: Any) -> None:
        import torch

        self.observer = observer
        self.original = original
        self.is_grad_enabled = torch.is_grad_enabled
        self.is_compiling = torch.compiler.is_compiling
        self.tracing = torch._C._get_tracing_state

    def call(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = self.observer
        if seen.sleep.on and self.is_grad_enabled() and get_ident() == seen.training_thread:
            seen.inside = 1
            try:
                return self.original(module, *args, **kwargs)
            finally:
                seen.inside = 0
        if self.is_compiling() or not seen.candidate() or self.tracing():
            return self.original(module, *args, **kwargs)
        before, seen.inside = seen.inside, 1
        try:
            if seen.deaf and self.is_grad_enabled():
                return self.original(module, *args, **kwargs)
            if seen.backwards:
                return self._timed(RECOMPUTE, module, args, kwargs)
            if not self.is_grad_enabled():
                return self._evaluation(module, args, kwargs)
            known = seen.facts.model(module)
            if known.is_loss:
                return self._timed(LOSS, module, args, kwargs)
            return self._training(known, module, args, kwargs)
        finally:
            seen.inside = before

    def _timed(self, phase: int, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        account = self.observer.account
        account.aside(phase)
        try:
            return self.original(module, *args, **kwargs)
        finally:
            account.pop()

    def _evaluation(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = self.observer
        account, view = seen.account, seen.view
        account.push(EVALUATION)
        try:
            if seen.entered:
                seen.leave_forward()
            if not seen.off:
                seen.once(steps.EVALUATION)
                seen.facts.evaluated(module)
            # A module without weights, or one that rides in the loop (a metric, a transform), is no model's evaluation.
            if view.hooked and not seen.facts.model(module).is_loss:
                return self._hooked_evaluation(module, args, kwargs)
            output = self.original(module, *args, **kwargs)
            if seen.vitals is not None and seen.facts.model(module).names:
                seen.vitals.evaluated(Call(module, args, kwargs, output, False, sys._getframe(3)))
            return output
        finally:
            account.pop()

    def _hooked_evaluation(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from contextlib import ExitStack

        view = self.observer.view
        with ExitStack() as stack:
            for enter in view.around_evaluation:
                stack.enter_context(enter())
            for change in view.inputs:
                args, kwargs = change(args, kwargs)
            return view.calls.get(id(module), self._plain(module))(*args, **kwargs)

    def _plain(self, module: Any) -> Any:
        return lambda *args, **kwargs: self.original(module, *args, **kwargs)

    def _training(self, known: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen = self.observer
        account, view = seen.account, seen.view
        account.push(FORWARD)
        try:
            seen.events.append(steps.FORWARD)
            seen.forwards += 1
            if not seen.off or known.new:
                seen.facts.trained(known, module, args, kwargs)
            if view.hooked and known.trains:
                seen.enter_forward()
                for change in view.inputs:
                    args, kwargs = change(args, kwargs)
                stand_in = view.calls.get(id(module))
                if stand_in is not None:
                    return self._out(stand_in(*args, **kwargs), sys._getframe(3))
            if seen.vitals is not None and known.names:
                seen.vitals.tell("calling", module, args, kwargs)
            output = self.original(module, *args, **kwargs)
            if seen.forwards > seen.usual_forwards:
                self._out(output, sys._getframe(3))
            if seen.vitals is not None and known.names:
                seen.vitals.tell("called", Call(module, args, kwargs, output, True, sys._getframe(3)))
            return output
        finally:
            account.pop()
            if seen.counts_forwards:
                seen.finish(-1)

    def _out(self, output: Any, frame: Any) -> Any:
        """More forwards in a row than usual: find out whether this one's result is ever differentiated."""
        seen = self.observer
        if not seen.off and seen.forwards > seen.usual_forwards:
            seen.facts.extra_forward(output, frame)
        return output
