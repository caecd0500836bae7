"""Gradients that a user wrote by hand, against numerical ones: one kept call of each function, asked again at the end in float64."""

import time
from types import MethodType
from typing import Any, ClassVar

import torch

from ..account import NETDYNO
from ..frames import NOWHERE, USER, Line, kind, user_line
from ._base import Vital, Watch, caller

# Functions that are told apart; numbers of one call that are kept; looked-at updates of which the last one's call is kept.
MOST, NUMBERS, CALLS = 8, 1_000_000, 3
# Numbers of each input whose slope is measured, half of them those with the largest gradient.
COORDINATES = 12
# Of double precision five digits go to the step and ten to what is left of the difference.
STEP = 1e-5
# Slopes to the left and to the right that differ by more belong to a kink, where there is no gradient to compare with.
KINK = 1e-3
WRONG = 0.01
# Below this part of the largest one a gradient counts as nothing.
NOTHING = 1e-7
SECONDS, ALL_SECONDS = 0.5, 1.5


class _Apply:
    """Stands where `Function.apply` stood, for whichever class it is asked of."""

    def __init__(self, original: Any, keep: Any) -> None:
        plain = original.__func__

        def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
            keep(cls, args, kwargs)
            return plain(cls, *args, **kwargs)

        self.apply = apply

    def __get__(self, _: Any, owner: Any) -> Any:
        return MethodType(self.apply, owner)


class Customs(Vital):
    """Keeps one call of each custom function of the user's, and compares gradients when the script is over."""

    kind: ClassVar[str] = "CustomGradients"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.kept: dict[Any, tuple[tuple[Any, ...], Line, int]] = {}
        self.others: set[int] = set()
        self.told: list[dict[str, Any]] = []
        watch.observer.replacements.replace(
            "vital Function.apply", torch.autograd.Function, "apply", lambda original: _Apply(original, self._keep)
        )

    def _keep(self, cls: Any, args: Any, kwargs: Any) -> None:
        watch = self.watch
        if not watch.looking or watch.busy or watch.ended or kwargs or id(cls) in self.others:
            return
        if not torch.is_grad_enabled() or not watch.observer.candidate() or torch.compiler.is_compiling():
            return
        known = self.kept.get(cls)
        if known is not None and (known[2] >= CALLS or watch.updates == known[2] - 1):
            return
        if not _written_by_user(cls):
            self.others.add(id(cls))
            return
        if known is None and len(self.kept) >= MOST:
            return
        self._copy(cls, args, known)

    def _copy(self, cls: Any, args: Any, known: Any) -> None:
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        if not any(one.requires_grad for one in tensors) or sum(one.numel() for one in tensors) > NUMBERS:
            return
        if torch._C._functorch.peek_interpreter_stack() is not None or not all(_plain(one) for one in tensors):
            return
        observer, began = self.watch.observer, time.perf_counter_ns()
        before, off = observer.account.current, observer.off
        observer.account.switch(NETDYNO)
        observer.off = True
        try:
            line = known[1] if known is not None else user_line(caller(3))
            self.kept[cls] = (tuple(_copied(one) for one in args), line, (known[2] if known is not None else 0) + 1)
        finally:
            observer.off = off
            observer.account.switch(before)
            self.watch.spent_ns += time.perf_counter_ns() - began

    def over(self) -> None:
        """Is the gradient the slope?"""
        began = time.thread_time()
        chance = torch.get_rng_state()
        try:
            for cls, (args, line, _) in self.kept.items():
                if time.thread_time() - began > ALL_SECONDS:
                    break
                told = self.watch.observer.guarded(f"vital customs {cls.__name__}", compared, cls, args)
                if told:
                    self.told.append({**_named(cls, line), **told})
        finally:
            torch.set_rng_state(chance)
            self.kept.clear()

    def summary(self) -> dict[str, Any] | None:
        """The functions that could be asked again."""
        return {"functions": self.told} if self.told else None


def _written_by_user(cls: Any) -> bool:
    code = getattr(getattr(cls, "backward", None), "__code__", None)
    return code is not None and (kind(code) == USER or cls.__module__ == "__main__")


def _plain(tensor: Any) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided


def _copied(value: Any) -> Any:
    """A value of its own in double precision, which remembers whether a gradient was asked for."""
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if copy.is_floating_point():
        copy = copy.double().requires_grad_(value.requires_grad)
    return copy


def _named(cls: Any, line: Line) -> dict[str, Any]:
    code = cls.backward.__code__
    return {
        "name": cls.__name__,
        "where": {"file": code.co_filename, "line": code.co_firstlineno},
        "applied": {"file": line.file, "line": line.line} if line != NOWHERE else None,
    }


def compared(cls: Any, args: tuple[Any, ...]) -> dict[str, Any] | None:
    """The gradients that a function gives for these arguments, against its slopes."""
    asked = _Asked(cls, args)
    with torch.no_grad():
        first, again = asked.outputs(), asked.outputs()
    if not first or not all(
        torch.equal(a, b) and bool(torch.isfinite(a).all()) for a, b in zip(first, again, strict=True)
    ):
        return None  # it remembers something, or draws from a generator that is not torch's
    if any(one.dtype != torch.float64 for one in first):
        return None  # it computes in a type of its own, too coarse for slopes
    asked.weigh(first)
    gradients = asked.gradients()
    largest = max((float(one.abs().max()) for one in gradients.values() if one.numel()), default=0.0)
    if not largest or largest - largest != 0:
        return None
    rows = [row for at, gradient in gradients.items() for row in asked.slopes(at, gradient, NOTHING * largest)]
    return {**_summed(rows, largest), "passes_on": any(_multiple(out, one) for out in first for one in asked.leaves)}


def _summed(rows: list[tuple[float, float]], largest: float) -> dict[str, Any]:
    few = NOTHING * largest
    designed = sum(abs(slope) <= few < abs(gradient) for gradient, slope in rows)
    felt = [(gradient, slope) for gradient, slope in rows if abs(slope) > few]
    wrong = [row for row in felt if abs(row[0] - row[1]) > WRONG * max(abs(row[0]), abs(row[1]))]
    ratios = sorted(gradient / slope for gradient, slope in wrong)
    return {
        "tested": len(felt),
        "wrong": len(wrong),
        "flat": designed,
        "ratio": ratios[len(ratios) // 2] if ratios else None,
        "ratio_low": ratios[0] if ratios else None,
        "ratio_high": ratios[-1] if ratios else None,
    }


def _multiple(output: Any, given: Any) -> bool:
    """Whether what comes out is what went in, times a number: then only the gradient can be what it was written for."""
    if output.shape != given.shape or not output.numel():
        return False
    given = given.detach()
    at = int(given.abs().argmax())
    size = float(given.reshape(-1)[at])
    factor = float(output.reshape(-1)[at]) / size if size else 0.0
    return bool(torch.allclose(output, factor * given, rtol=1e-9, atol=1e-12))


class _Asked:
    """A function and the arguments that it is asked with, under the same chance each time."""

    def __init__(self, cls: Any, args: tuple[Any, ...]) -> None:
        self.cls, self.args = cls, args
        self.chance = torch.get_rng_state()
        self.generator = torch.Generator().manual_seed(0)
        self.leaves = [one for one in args if isinstance(one, torch.Tensor) and one.requires_grad]
        self.weights: list[Any] = []
        self.until = 0.0

    def outputs(self) -> list[Any]:
        # What is written in place must not be a leaf, nor ours.
        given = [one * 1.0 if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in self.args]
        torch.set_rng_state(self.chance)
        result = self.cls.apply(*given)
        results = result if isinstance(result, tuple | list) else (result,)
        return [one for one in results if isinstance(one, torch.Tensor) and one.is_floating_point()]

    def weigh(self, outputs: list[Any]) -> None:
        """What is asked for of each output; of a single number, as of a loss, the thing itself."""
        for one in outputs:
            random = torch.randn(one.shape, generator=self.generator, dtype=one.dtype)
            self.weights.append(random if one.numel() > 1 else torch.ones_like(random))

    def gradients(self) -> dict[int, Any]:
        with torch.enable_grad():
            outputs = self.outputs()
            pairs = [(one, weight) for one, weight in zip(outputs, self.weights, strict=True) if one.requires_grad]
            if not pairs:
                return {}
            found = torch.autograd.grad(
                [one for one, _ in pairs], self.leaves, [weight for _, weight in pairs], allow_unused=True
            )
        # None and nothing but zeros say that none was meant.
        return {at: one.detach() for at, one in enumerate(found) if one is not None and bool(one.any())}

    def slopes(self, at: int, gradient: Any, few: float) -> list[tuple[float, float]]:
        """Pairs of gradient and slope of some numbers of an input; where the slope has no kink."""
        flat = self.leaves[at].detach().reshape(-1)
        told = []
        for number in self._numbers(gradient):
            # Of our own time: on a busy machine the clock goes on without us.
            self.until = self.until or time.thread_time() + SECONDS
            if time.thread_time() > self.until:
                break
            here = float(flat[number])
            step = STEP * max(1.0, abs(here))
            middle, after, before = (self._moved(flat, number, value) for value in (here, here + step, here - step))
            right, left = self._weighed(after, middle) / step, self._weighed(middle, before) / step
            slope = (right + left) / 2
            if abs(right - left) <= max(KINK * abs(slope), few):
                told.append((float(gradient.reshape(-1)[number]), slope))
        return told

    def _numbers(self, gradient: Any) -> list[int]:
        largest = gradient.reshape(-1).abs().topk(min(COORDINATES // 2, gradient.numel())).indices.tolist()
        drawn = torch.randint(gradient.numel(), (COORDINATES // 2,), generator=self.generator).tolist()
        return list(dict.fromkeys([*largest, *drawn]))

    def _moved(self, flat: Any, number: int, value: float) -> list[Any]:
        kept = float(flat[number])
        flat[number] = value
        try:
            with torch.no_grad():
                return self.outputs()
        finally:
            flat[number] = kept

    def _weighed(self, one: list[Any], other: list[Any]) -> float:
        return sum(float(((a - b) * w).sum()) for a, b, w in zip(one, other, self.weights, strict=True))


VITAL = Customs
