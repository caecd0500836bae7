"""Runs the batch of a snapshot again: does it happen again, and which operation is to blame?"""

import math
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from netdyno.aboard.frames import user_line
from netdyno.errors import StoreError
from netdyno.monitor import snapshot
from netdyno.monitor.subject import Subject
from netdyno.monitor.wires import gradients

# "Function 'LogBackward0' returned nan values in its 0th output."
BLAME = re.compile(r"Function '(\w+)' returned nan")
# Two sums of the same numbers in another order differ by rounding; an explosion is no matter of rounding.
NEAR = 1e-3


class Replayed(NamedTuple):
    """What the second run showed. `reproduced`: the same wire broke, at the same parameter where one was named.

    `exact`: the loss is the same to the last bit; None where the snapshot kept none. `operation` is the first
    that made a value which is not finite, with the line that called it; asked for by `anomaly`, which made the run
    `slower` so many times.
    """

    reproduced: bool
    cause: str
    parameter: str | None
    loss: float | None
    recorded: float | None
    exact: bool | None
    norm: float | None
    operation: str | None = None
    line: str | None = None
    slower: float | None = None
    notes: tuple[str, ...] = ()


class _Seen(BaseException):
    """The step is about to be taken: everything has been seen."""


class _Look:
    """What one run of the user's step showed."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.loss: float | None = None
        self.norm: float | None = None
        self.bad: gradients.Bad | None = None
        self.blamed: str | None = None
        self.line: str | None = None

    def before_step(self, optimizer: Any, *_: Any) -> None:
        """The place where the wires look."""
        self.gradients(optimizer)
        raise _Seen

    def gradients(self, optimizer: Any) -> None:
        """Their norm, and which is not finite."""
        found = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not found:
            return
        self.norm = float(gradients.total_norm(found))
        self.bad = gradients.bad(optimizer, gradients.names_of(self.subject.models, optimizer))

    def take(self, loss: Any) -> None:
        """The loss that a backward pass starts from; several of one update add up."""
        if isinstance(loss, torch.Tensor) and loss.numel() == 1:
            self.loss = (self.loss or 0.0) + loss.item()


def replay(path: str | Path, subject: Subject, step: Callable[[Any], Any], *, anomaly: bool = False) -> Replayed:
    """Run the recorded batch through `step` and say whether the trip is reproduced.

    `step(batch)` does what the loop does with a batch: forward, loss, backward, step. It is run up to the optimizer's step,
    which is not taken; afterwards the subject stands as the snapshot has it, ready to go on. `anomaly` runs it once
    more under `set_detect_anomaly` and names the operation that is to blame: the run itself never pays for that.
    Raises StoreError when the snapshot does not fit, or holds no batch.
    """
    told = snapshot.read(path)
    if not told["batches"]:
        raise StoreError(
            f"cannot replay `{path}`",
            because="it holds no batch: " + "; ".join(told["notes"]),
            hint="use a `DataLoader`, or restore the snapshot and call your step with a batch of your own",
        )
    began = time.perf_counter()
    look = _run(told, subject, step, str(path))
    plain_s = time.perf_counter() - began
    found = _compared(told, look)
    if anomaly:
        began = time.perf_counter()
        blamed = _run(told, subject, step, str(path), anomaly=True)
        slower = (time.perf_counter() - began) / max(plain_s, 1e-9)
        found = found._replace(operation=blamed.blamed, line=blamed.line, slower=slower)
    snapshot.put_back(told, subject, str(path))
    return found


def _run(
    told: dict[str, Any], subject: Subject, step: Callable[[Any], Any], path: str, *, anomaly: bool = False
) -> _Look:
    snapshot.put_back(told, subject, path)
    for optimizer in subject.optimizers:
        optimizer.zero_grad(set_to_none=True)
    look = _Look(subject)
    device = next((p.device for model in subject.models.values() for p in model.parameters()), torch.device("cpu"))
    with _losses(look), _before_steps(look):
        try:
            if anomaly:
                _blame(look, lambda: _through(told, step, device, look))
            else:
                _through(told, step, device, look)
        except _Seen:
            return look
    for optimizer in subject.optimizers:
        if look.bad is None:
            look.gradients(optimizer)
    return look


def _through(told: dict[str, Any], step: Callable[[Any], Any], device: Any, look: _Look) -> None:
    for batch in told["batches"]:
        # What a loader gave lay where the loader put it; what a model was called with lay where the model is.
        given = _moved(batch, device) if told["batches_from"] == "call" else batch
        result = step(given)
        if look.loss is None:
            look.take(result)


def _moved(batch: Any, device: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, batch)


@contextmanager
def _losses(look: _Look) -> Iterator[None]:
    """Hear what backward passes start from. A scaler's product is not the loss: `scale` tells what it was."""
    inner, scale = torch.autograd.backward, torch.amp.GradScaler.scale
    unscaled: list[tuple[Any, Any]] = []

    def backward(tensors: Any, *args: Any, **settings: Any) -> Any:
        root = tensors[0] if isinstance(tensors, list | tuple) and len(tensors) == 1 else tensors
        look.take(next((outputs for product, outputs in unscaled if product is root), root))
        return inner(tensors, *args, **settings)

    def scaled(self: Any, outputs: Any) -> Any:
        product = scale(self, outputs)
        unscaled.append((product, outputs))
        return product

    with patch.object(torch.autograd, "backward", backward), patch.object(torch.amp.GradScaler, "scale", scaled):
        yield


@contextmanager
def _before_steps(look: _Look) -> Iterator[None]:
    handles = [each.register_step_pre_hook(look.before_step) for each in look.subject.optimizers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _compared(told: dict[str, Any], look: _Look) -> Replayed:
    recorded = told["loss"]
    same = None if recorded is None or look.loss is None else _same(look.loss, recorded)
    parameter = look.bad.name if look.bad is not None else None
    return Replayed(
        reproduced=_again(told, look) and told["parameter"] in (None, parameter, *_weights(told, look)),
        cause=told["cause"], parameter=parameter if told["cause"] == "gradients-not-finite" else told["parameter"],
        loss=look.loss, recorded=recorded, exact=same, norm=look.norm, notes=tuple(told["notes"]),
    )  # fmt: skip


def _again(told: dict[str, Any], look: _Look) -> bool:
    cause, value = told["cause"], told["because"].get("value")
    if cause == "loss-not-finite":
        return look.loss is not None and look.loss - look.loss != 0.0
    if cause in ("gradients-not-finite", "scaler-collapse"):
        return look.bad is not None
    now = look.norm if cause == "gradient-explosion" else look.loss
    if now is None:
        return False
    if value is None:  # it was not finite any more
        return now - now != 0.0
    return abs(now - value) <= NEAR * abs(value)


def _weights(told: dict[str, Any], look: _Look) -> tuple[str, ...]:
    """A weight that is not finite was named: it still is."""
    name = told["parameter"]
    for model_name, model in look.subject.models.items():
        for path, parameter in model.named_parameters():
            if name in (path, f"{model_name}.{path}") and not bool(torch.isfinite(parameter).all()):
                return (name,)
    return ()


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


# who is to blame


def _blame(look: _Look, run: Callable[[], None]) -> None:
    first = _First()
    try:
        with warnings.catch_warnings(record=True) as said, torch.autograd.set_detect_anomaly(True), first:
            warnings.simplefilter("always")
            run()
    except RuntimeError as error:
        blamed = BLAME.search(str(error))
        if blamed is None:
            raise
        look.blamed, look.line = blamed[1], _line_of(said)
    except _Seen:
        pass
    if first.name is not None:  # what the forward pass broke, the backward pass only hands on
        look.blamed, look.line = first.name, first.line


def _line_of(said: list[warnings.WarningMessage]) -> str | None:
    """Anomaly mode tells the forward call's traceback in a warning; the last line of it is the call."""
    found: list[str] = []
    for each in said:
        found.extend(re.findall(r'File "([^"]+)", line (\d+), in', str(each.message)) and _users(str(each.message)))
    return found[-1] if found else None


def _users(text: str) -> list[str]:
    places = re.findall(r'File "([^"]+)", line (\d+), in', text)
    return [f"{file}:{line}" for file, line in places if "site-packages" not in file and file != __file__]


class _First(TorchFunctionMode):
    """Finds the first function whose result is not finite though all it was given is."""

    def __init__(self) -> None:
        super().__init__()
        self.name: str | None = None
        self.line: str | None = None

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if self.name is None and _bad(result) and not _bad((args, kwargs)):
            self.name = getattr(function, "__name__", str(function))
            line = user_line(sys._getframe(1))
            self.line = f"{line.file}:{line.line}" if line.file and line.file != __file__ else None
        return result


def _bad(values: Any) -> bool:
    floats = (one for one in tree_leaves(values) if isinstance(one, torch.Tensor) and one.is_floating_point())
    with torch._C.DisableTorchFunction(), torch.no_grad():
        return any(one.layout is torch.strided and not bool(torch.isfinite(one).all()) for one in floats)
