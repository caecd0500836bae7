"""Learn to change one's mind as the teacher does: the gradient of the loss with respect to the features points the same way.

Helps:      students whose features have the shape of the teacher's; it has no temperature to tune.
Costs:      a second backward pass through the upper part of the student, and one through the teacher's.
Needs:      `teacher=` in the workload, and a layer whose output has the same shape in both.
Evidence:   seldom better than distillation by answers; both are tried at the same number of updates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import a_batch, fresh
from netdyno.knobs._losses import gradient_directions, no_classes, teacher_of
from netdyno.records.study import Stage
from netdyno.targets.samples import kept_randomness
from netdyno.targets.subject import Batch

NO_TEACHER = "there is no teacher: declare `teacher=`, a function that gives a trained model"
# The features near the answer say most about it, and each layer more is another backward pass.
LAYERS = 3


@dataclass(frozen=True, slots=True)
class DirectionDistillation:
    """`weight` is what the mean of 1 - cosine is multiplied by before it is added to the loss."""

    weight: float = 1.0

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "asks that the features pull on the loss in the directions in which the teacher's do"
    asks: ClassVar[str] = "should the student's gradients point where the teacher's do?"
    effort_min: ClassVar[float] = 40.0
    order: ClassVar[int] = 62

    def refuses(self, setup: Setup) -> str | None:
        if self.weight <= 0:
            return f"a weight of `{self.weight}` asks for nothing"
        if teacher_of(setup) is None:
            return NO_TEACHER
        return no_classes(setup) or (None if _layers(setup) else "no layer's output has the same shape in both models")

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return (DirectionDistillation(1.0), DirectionDistillation(0.3))

    def turned(self, setup: Setup) -> Setup:
        teacher, names = teacher_of(setup), _layers(setup)
        assert teacher is not None
        watched = Watched(names)
        loss = Directed(setup.loss, setup.forward, teacher, names, watched, self.weight)
        make = setup.model
        return replace(setup, model=lambda: watched.watching(make()), loss=loss)

    def code(self) -> str:
        return (
            "own = torch.autograd.grad(loss, features, create_graph=True)[0].flatten(1)\n"
            "theirs = torch.autograd.grad(teacher_loss, teacher_features)[0].flatten(1)\n"
            f"loss = loss + {self.weight} * (1 - torch.nn.functional.cosine_similarity(own, theirs).mean())"
        )


class Watched:
    """What the named layers of a model have put out last. The hooks live as long as the model does."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.outputs: dict[str, Tensor] = {}

    def watching(self, model: nn.Module) -> nn.Module:
        for name in self.names:
            model.get_submodule(name).register_forward_hook(self._noting(name))
        return model

    def _noting(self, name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
        def note(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
            self.outputs[name] = output
            return output.clone()  # what works in place behind it must not change what was noted

        return note


@dataclass(frozen=True, eq=False)
class Directed:
    """A loss that also asks for the teacher's directions of gradients at the paired layers."""

    own: Callable[[Any, Batch], Tensor]
    forward: Callable[[nn.Module, Batch], Any]
    teacher: nn.Module
    names: tuple[str, ...]
    watched: Watched
    weight: float

    def __call__(self, output: Tensor, batch: Batch) -> Tensor:
        loss = self.own(output, batch)
        features = [self.watched.outputs[name] for name in self.names]
        own = torch.autograd.grad(loss, features, create_graph=True)
        terms = [gradient_directions(mine, theirs) for mine, theirs in zip(own, self._taught(batch), strict=True)]
        return loss + self.weight * torch.stack(terms).mean()

    def _taught(self, batch: Batch) -> list[Tensor]:
        """The teacher's gradients at the same layers; its weights need none."""
        seen = Watched(self.names)
        hooks = [self.teacher.get_submodule(name).register_forward_hook(_tracked(seen, name)) for name in self.names]
        try:
            with torch.enable_grad():
                loss = self.own(self.forward(self.teacher, batch), batch)
        finally:
            for hook in hooks:
                hook.remove()
        return list(torch.autograd.grad(loss, [seen.outputs[name] for name in self.names]))


def _tracked(seen: Watched, name: str) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    """A hook that lets the tape begin at a layer of a frozen teacher."""

    def track(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        seen.outputs[name] = output if output.requires_grad else output.detach().requires_grad_()
        return seen.outputs[name].clone()

    return track


def _layers(setup: Setup) -> tuple[str, ...]:
    """The last layers of the same name whose outputs have the same shape in both, the output of the whole left out."""
    teacher = teacher_of(setup)
    if teacher is None:
        return ()
    own, theirs = _shapes(setup, fresh(setup).to(setup.workload.device).eval()), _shapes(setup, teacher)
    alike = [name for name in own if theirs.get(name) == own[name]]
    return tuple(alike[-LAYERS - 1 : -1]) if alike and alike[-1] == list(own)[-1] else tuple(alike[-LAYERS:])


def _shapes(setup: Setup, model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The shapes of what the leaves of a model put out, in the order in which they run."""
    found: dict[str, tuple[int, ...]] = {}

    def noting(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                found.setdefault(name, tuple(output.shape))

        return note

    leaves = [(name, one) for name, one in model.named_modules() if name and not any(one.children())]
    hooks = [one.register_forward_hook(noting(name)) for name, one in leaves]
    try:
        with kept_randomness(), torch.no_grad():
            setup.forward(model, a_batch(setup))
    finally:
        for hook in hooks:
            hook.remove()
    return found
