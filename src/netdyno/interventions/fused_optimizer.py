"""Update each parameter in one pass over memory instead of one pass per operation.

Helps:      Adam, AdamW, SGD and Adagrad. Seen on a CPU, the update alone: 3.5x for AdamW on a CNN and a transformer,
            1.7x for SGD with momentum. Of a whole step it is rarely much: 1.08x for a small transformer
            (1.06 to 1.10 from the third lowest to the third highest of 14 pairs).
Costs:      one argument.
Parity:     the same formula in another order of roundings: 6e-8 apart after 20 updates on one CPU, the same bits on
            another.
Undo:       flags, the device of step counters and the optimizer's own marks are set back; its state carries over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from netdyno.interventions._base import Facts, Intervention
from netdyno.records.evidence import StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.subject import Subject, parameters_of

FUSED: tuple[type[torch.optim.Optimizer], ...] = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.Adagrad,
)
LEAST_SHARE = 0.02  # of a step: less is below any gain that a trial can show
MARKS = ("_step_supports_amp_scaling", "_need_device_dtype_check_for_fused")


@dataclass(frozen=True, slots=True)
class FusedOptimizer:
    layers: ClassVar[tuple[str, ...]] = ("optimisation", "compute")
    numerics: ClassVar[Numerics] = "reordered"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 21  # after foreach, which it switches off
    effort: ClassVar[float] = 1.0
    memory_only: ClassVar[bool] = False

    def refuses(self, subject: Subject) -> str | None:
        optimizer = subject.optimizer
        name = type(optimizer).__name__
        # Exactly these: a subclass may override what the flag would bypass.
        if type(optimizer) not in FUSED:
            return f"`{name}` has no fused form; {', '.join(kind.__name__ for kind in FUSED)} have"
        if all(group["fused"] for group in optimizer.param_groups):
            return f"`{name}` is fused already"
        if any(group.get("differentiable") or group.get("capturable") for group in optimizer.param_groups):
            return f"`{name}` is differentiable or capturable, and its fused form is for neither"
        if isinstance(optimizer, torch.optim.Adagrad) and subject.device.type != "cpu":
            return "the fused form of `Adagrad` exists for the CPU only"
        supported = _get_fused_kernels_supported_devices()
        for parameter in parameters_of(optimizer):
            if parameter.device.type not in supported or not parameter.is_floating_point():
                return f"a parameter is `{parameter.dtype}` on `{parameter.device}`, which has no fused form"
        if any(_in_another_order(parameter, optimizer) for parameter in parameters_of(optimizer)):
            return "optimizer state lies in another memory order than its parameter; the fused form would mix them up"
        if any(getattr(module, "sparse", False) is True for module in subject.model.modules()):
            return "an embedding gives sparse gradients, which the fused form does not take"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        if timeline is None:
            return None
        share = timeline.share("optimizer")
        if share < LEAST_SHARE:
            return None
        return Prediction(
            low=0.3 * share,
            high=0.8 * share,
            why=f"the update takes {share:.0%} of a step; fused it is 1.7 to 5 times quicker",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (self,)

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        optimizer = subject.optimizer
        flags = [(group, group["fused"], group["foreach"]) for group in optimizer.param_groups]
        marks = {name: vars(optimizer)[name] for name in MARKS if name in vars(optimizer)}
        counters = _counters(optimizer)
        try:
            for group, _, _ in flags:
                group["fused"], group["foreach"] = True, None
            for name in MARKS:
                setattr(optimizer, name, True)
            _fit_for_fused(optimizer)
            yield subject
        finally:
            for group, fused, foreach in flags:
                group["fused"], group["foreach"] = fused, foreach
            for name in MARKS:
                vars(optimizer).pop(name, None)
            vars(optimizer).update(marks)
            _put_back(optimizer, counters)

    def code(self) -> str:
        return "optimizer = torch.optim.AdamW(model.parameters(), ..., fused=True)  # or whichever you use"


def _in_another_order(parameter: Tensor, optimizer: torch.optim.Optimizer) -> bool:
    state: dict[str, Any] = optimizer.state.get(parameter, {})
    return any(
        isinstance(value, Tensor) and value.shape == parameter.shape and value.stride() != parameter.stride()
        for value in state.values()
    )


def _counters(optimizer: torch.optim.Optimizer) -> dict[Tensor, Tensor]:
    """Each parameter's step counter, where there is one."""
    return {
        parameter: state["step"]
        for parameter, state in optimizer.state.items()
        if isinstance(state.get("step"), Tensor)
    }


def _fit_for_fused(optimizer: torch.optim.Optimizer) -> None:
    """Fused kernels want the counter as float32, beside the parameter."""
    for parameter, counter in _counters(optimizer).items():
        state: dict[str, Any] = optimizer.state[parameter]
        state["step"] = counter.to(parameter.device, torch.float32)


def _put_back(optimizer: torch.optim.Optimizer, before: dict[Tensor, Tensor]) -> None:
    for parameter, counter in _counters(optimizer).items():
        kept = before.get(parameter)
        optimizer.state[parameter]["step"] = _as_plain(counter) if kept is None else kept.copy_(counter)


def _as_plain(counter: Tensor) -> Tensor:
    """A counter that was made inside, as the plain form would have made it."""
    wide = torch.get_default_dtype() == torch.float64
    return counter.to("cpu", torch.float64 if wide else torch.float32)


EXAMPLES = (FusedOptimizer(),)
