"""What a few updates call, and what feeds what, from the first call of a model to the backward pass."""

import weakref
from typing import Any, ClassVar

import torch

from ._base import Vital, Watch
from ._trace import Tracer, enter, leave, may_trace

# The first, one soon after, and one when things have settled; later ones at powers of two, as far as they are affordable.
LOOKED_AT = (0, 2, 20)
MOST = 6
# Names of modules are made once per model; more models than this are somebody's population.
MODELS = 8


class Calls(Vital):
    """Enters a mode before a model's call in training, and leaves it at the backward pass."""

    kind: ClassVar[str] = "CallTraces"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.tracer: Tracer | None = None
        self.told: list[dict[str, Any]] = []
        self.looked: set[int] = set()
        self.names: dict[int, str] = {}
        self.named: list[Any] = []
        self.compiled = False
        self.models: set[int] = set()
        self.steppers: set[int] = set()
        patches = watch.observer._patches
        patches.replace("calls torch.compile", torch, "compile", self._hearing)
        patches.replace("calls Module.compile", torch.nn.Module, "compile", self._hearing)

    def _hearing(self, original: Any) -> Any:
        def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001  it is one
            self.compiled = True
            return original(*args, **kwargs)

        return compile

    # coming and going

    def every_calling(self, module: Any, args: Any, kwargs: Any) -> None:
        """A training call begins."""
        if self.tracer is not None and not self.tracer.on:
            self._leave()

    def calling(self, module: Any, args: Any, kwargs: Any) -> None:
        """A training call begins in a looked-at update."""
        at = self.watch.updates
        if self.tracer is not None:
            self._learn(module)
            return
        if self.compiled or not self._wanted(at, module) or not may_trace(module):
            return
        self.looked.add(at)
        self._learn(module)
        tracer = self.tracer = Tracer(self.watch.observer, at + 1, self.names)
        first = next((one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor) and one.dim()), None)
        tracer.batch = first.shape[0] if first is not None else None
        enter(tracer)

    def _wanted(self, at: int, module: Any) -> bool:
        if at in self.looked or len(self.looked) >= MOST:
            return False
        if at in LOOKED_AT or id(module) not in self.models:  # a second phase begins with a model of its own
            return True
        return at > LOOKED_AT[-1] and at >= 2 * max(self.looked, default=0)

    def _learn(self, module: Any) -> None:
        self.models.add(id(module))
        if len(self.named) >= MODELS or any(one() is module for one in self.named):
            return
        self.named.append(weakref.ref(module))
        kind = type(module).__name__
        for name, one in module.named_modules():
            self.names.setdefault(id(one), name or kind)

    def _leave(self) -> None:
        tracer = self.tracer
        if tracer is None:
            return
        if tracer.on:
            tracer.on = False
            if tracer.root is not None:  # what led to no backward pass was no training
                self.told.append(tracer.summary())
            tracer.stop()
            self.watch.spent_ns += tracer.spent_ns
            self.watch.costs["calls"] += tracer.spent_ns
        if leave(tracer):
            self.tracer = None

    def every_backward(self, loss: Any) -> None:
        """The forward pass is over."""
        if self.tracer is None:
            return
        if self.tracer.on:
            roots = loss if isinstance(loss, list | tuple) else (loss,)
            self.tracer.root = next((made for one in roots if (made := self.tracer.made_by(one)) is not None), None)
        self._leave()

    def every_step(self, optimizer: Any) -> None:
        """Whatever was still on is left."""
        self.steppers.add(id(optimizer))
        self._leave()

    def every_update(self, number: int) -> None:
        """The same."""
        self._leave()

    def every_batch(self, loader: Any, batch: Any) -> None:
        """The same, where a step was left out."""
        self._leave()

    def over(self) -> None:
        """The same."""
        self._leave()

    def summary(self) -> dict[str, Any] | None:
        """The traces: the first and the last ones are told."""
        if not self.told:
            return None
        return {"traces": self.told, "models": len(self.models), "optimizers": max(1, len(self.steppers))}


VITAL = Calls
