"""Finds the first value that was no number: in a sample, in the weights, in a call of the forward pass, or on the way back."""

from typing import Any, ClassVar

import torch

from ..frames import user_line
from ._base import Call, LossCall, Vital, Watch, caller
from ._trace import Tracer, enter, leave, may_trace, place
from .probe import undisturbed

# The parameters that a backward pass reaches last are the first ones: what is broken on the way arrives there.
FIRST_PARAMETERS = 3
NODES = 400  # of a graph, from the loss on
# Nodes of a graph whose slope is infinite somewhere.
STEEP = ("Sqrt", "Norm", "Div", "Pow", "Log", "Rsqrt", "Reciprocal", "Acos", "Asin", "Std", "Atan2", "Cdist")


class NonFinites(Vital):
    """Listens to each loss and to one gradient per update, and looks closely the first time that one is no number."""

    kind: ClassVar[str] = "NonFinite"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.last: Call | None = None
        self.judged: LossCall | None = None
        self.loss_before: float | None = None
        self.first_loss: float | None = None
        self.weights_first: float | None = None
        self.told: dict[str, Any] | None = None
        self.bad_after = self.good_after = 0
        self.pulse: Any = None
        self.hidden: dict[str, Any] | None = None
        self.ended = False

    def every_called(self, call: Call) -> None:
        """What was called last can be called again."""
        if call.grad and self.told is None:
            self.last = call

    def every_loss(self, call: LossCall) -> None:
        """The same for the loss."""
        if call.grad and self.told is None:
            self.judged = call

    def every_differentiated(self, loss: Any) -> None:
        """Is the loss a number?"""
        value = self.watch.observer._loss
        if value is None:
            return
        bad = value - value != 0
        if self.told is not None:
            self._count(bad)
        elif bad:
            self._trip(value, loss)
        else:
            self.loss_before = value
            if self.first_loss is None:
                self.first_loss = value

    def _count(self, bad: bool) -> None:
        self.bad_after += bad
        self.good_after += not bad

    def called(self, call: Call) -> None:
        """How large the weights are to begin with."""
        if call.grad and self.weights_first is None:
            self.weights_first = largest(call.module)

    def every_step(self, optimizer: Any) -> None:
        """Is the gradient a number, that a backward pass reaches last?"""
        if self.told is not None or self.ended:
            return
        parameter = self._pulse(optimizer)
        if parameter is None or parameter.grad is None:
            self._forget()
            return
        gradient = parameter.grad
        if gradient.is_cpu or self.watch.looking:
            beat = self.watch.observer._item(gradient.sum())
            # Infinities are a scaler's business: it is where large gradients are met on purpose.
            if beat - beat != 0 and not self.watch.observer.facts.scaler_used:
                self._trip(self.loss_before, None)
        self.last = self.judged = None

    def _forget(self) -> None:
        self.last = self.judged = None

    def _pulse(self, optimizer: Any) -> Any:
        known = self.pulse
        if known is not None and known[0] == id(optimizer):
            return known[1]
        first = [
            p for group in optimizer.param_groups[:1] for p in group["params"][:FIRST_PARAMETERS] if p.requires_grad
        ]
        found = min(first, key=lambda one: one.numel(), default=None)
        self.pulse = (id(optimizer), found)
        return found

    # the place

    def _trip(self, value: float | None, loss: Any) -> None:
        line = user_line(caller(1))
        self.told = {
            "stage": "loss",
            "update": self.watch.updates + 1,
            "where": place(line),
            "loss": _plain(value),
            "loss_before": _plain(self.loss_before),
            "first_loss": self.first_loss,
            "weights_high_first": self.weights_first,
        }
        found = self.watch.observer.guarded("vital nonfinite", self._place, loss)
        self.told |= found or {}
        self._forget()
        self.pulse = None

    def _place(self, loss: Any) -> dict[str, Any]:
        call, judged = self.last, self.judged
        finite_loss = self.told is not None and self.told["loss"] is not None
        found: dict[str, Any] = {}
        if judged is not None and (bad := _all_ignored(judged)):
            return bad
        if call is not None:
            module = call.module
            found["weights_high"] = largest(module)
            for name, one in (*enumerate(call.args), *call.kwargs.items()):
                if isinstance(one, torch.Tensor) and (sample := _first_bad(one)):
                    return found | {
                        "stage": "input",
                        "call": str(name),
                        "samples": _bad_rows(one),
                        "kind_of": _kind(one),
                        **sample,
                    }
            for one in (*call.args, *call.kwargs.values()):
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel():
                    found["input_high"] = float(one.detach().abs().max())
            bad_weights = [name for name, one in module.named_parameters() if not bool(torch.isfinite(one).all())]
            if bad_weights:
                return found | {"stage": "weights", "parameter": bad_weights[0]}
            if not finite_loss or value_hidden(call.output):
                again = self._again(call, found)
                if again.get("stage"):
                    return found | again
        if judged is not None and isinstance(judged.target, torch.Tensor) and (sample := _first_bad(judged.target)):
            return found | {
                "stage": "input",
                "call": "target",
                "samples": _bad_rows(judged.target),
                **sample,
                "where": place(judged.line),
            }
        if not finite_loss:
            name = judged.name if judged is not None else ""
            return found | {
                "stage": "loss",
                "call": name,
                **({"where": place(judged.line)} if judged is not None else {}),
            }
        return found | {"stage": "backward", **self._backward(call)}

    def _again(self, call: Call, found: dict[str, Any]) -> dict[str, Any]:
        """The same call under a mode that looks at every result: the first one that is no number."""
        module = call.module
        if not may_trace(module, alone=True):
            return {}
        names = {id(one): name or type(module).__name__ for name, one in module.named_modules()}
        tracer = Tracer(self.watch.observer, 0, names)
        tracer.always = True
        with undisturbed(module, training=None):
            enter(tracer)
            try:
                module(*call.args, **call.kwargs)
            finally:
                rows = tracer.rows
                tracer.stop()
                leave(tracer)
        bad = next(
            (row for row in rows if not row.get("finite", True) and "-inf" not in row["settings"].values()), None
        )
        if bad is None:
            return {}
        return {"stage": "forward", "call": bad["name"], "where": bad["where"], "input_high": found.get("input_high")}

    def _backward(self, call: Call | None) -> dict[str, Any]:
        """The loss was a number, the gradient is none: a call whose slope is infinite where it stood."""
        told: dict[str, Any] = {}
        models = [call.module] if call is not None else self.watch.models
        for model in models:
            bad = [
                n for n, p in model.named_parameters() if p.grad is not None and not bool(torch.isfinite(p.grad).all())
            ]
            if bad:
                told["parameter"] = bad[0]
        steep = self._steep()
        if steep is None and call is not None and may_trace(call.module, alone=True):
            steep = self._steep_within(call)
        return told | (steep or {})

    def _steep(self) -> dict[str, Any] | None:
        """In the trace of this very update, if there is one: also the loss that was written by hand is in it."""
        calls = next((one for one in self.watch.vitals if one.kind == "CallTraces"), None)
        told = getattr(calls, "told", [])
        trace = told[-1] if told and told[-1]["update"] == self.watch.updates + 1 else None
        return suspect(trace["calls"]) if trace is not None else None

    def _steep_within(self, call: Call) -> dict[str, Any] | None:
        tracer = Tracer(self.watch.observer, 0, {})
        tracer.always = True
        with undisturbed(call.module, training=None):
            enter(tracer)
            try:
                call.module(*call.args, **call.kwargs)
            finally:
                rows = tracer.rows
                tracer.stop()
                leave(tracer)
        return suspect(rows)

    def over(self) -> None:
        """Nothing is kept."""
        self.ended = True
        self._forget()

    def summary(self) -> dict[str, Any] | None:
        """The first place, if there was any."""
        if self.told is None:
            return None
        return {**self.told, "persists": self.good_after == 0}


def suspect(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last call that gave no number though the loss is one, or that stood where its slope is infinite."""
    for row in reversed(rows):
        if row.get("edge") or (not row.get("finite", True) and "-inf" not in row["settings"].values()):
            return {
                "call": row["name"],
                "where": row["where"],
                "kind_of": "edge" if row.get("finite", True) else "hidden",
            }
    return None


def value_hidden(output: Any) -> bool:
    """Whether what a model gave holds no numbers."""
    return isinstance(output, torch.Tensor) and not bool(torch.isfinite(output.detach()).all())


def largest(module: Any) -> float | None:
    """The largest absolute weight."""
    sizes = [one.detach().abs().max() for one in module.parameters() if one.numel() and one.is_floating_point()]
    return _plain(float(torch.stack([size.float() for size in sizes]).max())) if sizes else None


def _first_bad(tensor: Any) -> dict[str, Any] | None:
    if not tensor.is_floating_point() or not tensor.numel():
        return None
    bad = ~torch.isfinite(tensor.detach())
    if not bool(bad.any()):
        return None
    at = bad.nonzero()[0].tolist()
    return {"sample": at[0] if at else None, "feature": at[1:]}


def _bad_rows(tensor: Any) -> int:
    bad = ~torch.isfinite(tensor.detach())
    return int(bad.reshape(bad.shape[0], -1).any(dim=1).sum()) if bad.dim() else 1


def _kind(tensor: Any) -> str:
    return "nan" if bool(torch.isnan(tensor.detach()).any()) else "inf"


def _all_ignored(call: LossCall) -> dict[str, Any] | None:
    if call.name not in ("cross_entropy", "nll_loss") or not isinstance(call.target, torch.Tensor):
        return None
    ignores = call.kwargs.get("ignore_index", call.args[4] if len(call.args) > 4 else -100)
    if call.target.is_floating_point() or not bool((call.target == ignores).all()):
        return None
    return {
        "stage": "loss",
        "call": call.name,
        "ignored": True,
        "where": place(call.line),
        "samples": call.target.numel(),
    }


def _plain(value: float | None) -> float | None:
    return value if value is not None and value - value == 0 else None


VITAL = NonFinites
