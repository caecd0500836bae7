"""Listens to the functions that one forward pass and its loss call: a mode of torch, entered for a few updates only."""

import sys
import time
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..account import NETDYNO
from ..frames import OURS, Line, kind, user_line

WEIGHT, DATA = -1, -2
# The beginning of a forward and its end with the loss: in between deep models repeat themselves.
FIRST, LAST = 400, 100
# Statistics read every value; of huge tensors a part tells as much.
MOST_VALUES = 200_000
# Frames between a function and the module that called it.
DEEPEST = 40
# Functions that make no values: questions about a tensor, switches.
SILENT = frozenset(
    [
        "size",
        "dim",
        "numel",
        "shape",
        "stride",
        "storage_offset",
        "is_contiguous",
        "data_ptr",
        "__len__",
        "__format__",
        "__repr__",
        "__str__",
        "item",
        "tolist",
        "numpy",
        "is_floating_point",
        "is_complex",
        "element_size",
        "ndimension",
        "untyped_storage",
        "register_hook",
        "__bool__",
        "__int__",
        "__float__",
        "__index__",
        "is_cuda",
        "get_device",
        "__hash__",
        "__set__",
        "_set_grad_enabled",
        "nelement",
        "is_same_size",
        "is_nonzero",
        "__contains__",
        "backward",
        "cpu",
        "set_grad_enabled",
        "is_grad_enabled",
        "is_inference",
        "retain_grad",
        "__delete__",
        "is_tensor",
        "_is_view",
        "__array__",
        "manual_seed",
    ]
)
# What a property of a tensor gives is asked for, but for these, which are tensors of another form.
FORMS = frozenset(("T", "mT", "data", "real", "imag", "H"))
# The order in which arguments that are no tensors stand, after the tensors, in functions that have settings worth keeping.
PLACES = {
    "softmax": ("", "dim"),
    "log_softmax": ("", "dim"),
    "logsumexp": ("", "dim"),
    "sum": ("", "dim"),
    "mean": ("", "dim"),
    "dropout": ("", "p", "training"),
    "masked_fill": ("", "", "value"),
    "masked_fill_": ("", "", "value"),
    "div": ("", "other"),
    "__truediv__": ("", "other"),
    "mul": ("", "other"),
    "__mul__": ("", "other"),
    "__rmul__": ("", "other"),
    "rsub": ("", "other"),
    "__rsub__": ("", "other"),
    "pow": ("", "exponent"),
    "transpose": ("", "dim0", "dim1"),
    "lstm": ("", "", "", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "gru": ("", "", "", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "rnn_tanh": ("", "", "", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
}


class Tracer(TorchFunctionMode):
    """Writes down calls until it is told to stop; then it only passes them on.

    Keeps what calls gave alive, so that no name is used twice: whoever enters it must call `stop` before the backward pass.
    """

    def __init__(self, observer: Any, update: int, names: dict[int, str]) -> None:
        super().__init__()
        self.observer = observer
        self.update = update
        self.names = names  # modules by their ids
        self.on = True
        self.within = 0
        self.rows: list[dict[str, Any]] = []
        self.made: dict[int, int] = {}
        self.kept: list[Any] = []
        self.count = 0
        self.spent_ns = 0
        self.root: int | None = None
        self.batch: int | None = None
        self.statistics = True
        self.always = False  # also within a look of our own

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.within += 1
        try:
            # Our own stand-in for a loss reports each call, and it is the one that was called first.
            call = _unwrapped(func)
            if not self.on:
                return call(*args, **kwargs)
            result = call(*args, **kwargs)
            if self.on and (self.always or not self.observer.vitals.busy):  # other looks call functions too
                self._note(call, args, kwargs, result)
            return result
        finally:
            self.within -= 1

    def stop(self) -> None:
        """No more is written down, and nothing is kept alive."""
        self.on = False
        self.kept.clear()
        self.made.clear()

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = getattr(func, "__name__", "")
        if name in SILENT:
            return
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", "")
            if name not in FORMS:
                return
        results = list(_tensors(result))
        if not results:
            return
        observer, account = self.observer, self.observer.account
        before, off = account.current, observer.off
        began = time.perf_counter_ns()
        account.switch(NETDYNO)
        observer.off = True
        try:
            with torch.no_grad():
                self._write(name, args, kwargs, results, sys._getframe(2))
        except Exception as error:
            observer.trouble("vital calls", error)
            self.on = False
        finally:
            observer.off = off
            account.switch(before)
            self.spent_ns += time.perf_counter_ns() - began

    def _write(self, name: str, args: Any, kwargs: Any, results: list[Any], frame: FrameType) -> None:
        inputs = [*_tensors(args), *_tensors(kwargs)][:8]
        number = self.count
        self.count += 1
        line = user_line(frame)
        row = {
            "name": name,
            "where": {"file": line.file, "line": line.line, "module": self._module(frame)} if line.file else None,
            "inputs": [self._number(one) for one in inputs],
            "shapes": [list(one.shape) for one in inputs],
            "shape": list(results[0].shape),
            "dtype": str(results[0].dtype).removeprefix("torch."),
            "settings": _settings(name, args, kwargs),
            "grad": bool(results[0].requires_grad),
        }
        if self.statistics:
            row |= statistics(results[0])
            row["edge"] = _edge(name, inputs, args, kwargs)
        for one in results:
            self.made[id(one)] = number
        self.kept.extend(results)
        self.rows.append(row)
        if len(self.rows) > FIRST + LAST:
            del self.rows[FIRST]

    def _number(self, tensor: Any) -> int:
        made = self.made.get(id(tensor))
        if made is not None:
            return made
        return WEIGHT if isinstance(tensor, torch.nn.Parameter) else DATA

    def _module(self, frame: FrameType | None) -> str | None:
        for _ in range(DEEPEST):
            if frame is None:
                return None
            code = frame.f_code
            if code.co_varnames[:1] == ("self",) and code.co_argcount:
                owner = frame.f_locals.get("self")
                if isinstance(owner, torch.nn.Module):
                    return self.names.get(id(owner))
            frame = frame.f_back
        return None

    def made_by(self, tensor: Any) -> int | None:
        """The call that gave this tensor."""
        return self.made.get(id(tensor))

    def summary(self) -> dict[str, Any]:
        """The trace as its record has it: calls that were left out in the middle are stepped over."""
        missed = self.count - len(self.rows)

        def moved(number: int | None) -> int | None:
            if number is None or number < FIRST or not missed:
                return number
            return number - missed if number - missed >= FIRST else DATA

        rows = [{**row, "inputs": [moved(one) for one in row["inputs"]]} for row in self.rows]
        root = moved(self.root)
        return {
            "update": self.update,
            "calls": rows,
            "root": root if root is not None and root >= 0 else None,
            "missed": missed,
            "batch": self.batch,
        }


def _unwrapped(func: Any) -> Any:
    for _ in range(6):
        code = getattr(func, "__code__", None)
        inner = getattr(func, "__wrapped__", None)
        if code is None or inner is None or kind(code) != OURS:
            return func
        func = inner
    return func


def _tensors(value: Any, depth: int = 0) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple) and depth < 3:
        for one in value[:64]:
            yield from _tensors(one, depth + 1)
    elif isinstance(value, dict) and depth < 3:
        for one in list(value.values())[:64]:
            yield from _tensors(one, depth + 1)


def _settings(name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    places = PLACES.get(name, ())
    for at, value in enumerate(args):
        setting = _plain(value)
        if setting is not None and at < len(places) and places[at]:
            found[places[at]] = setting
    for key, value in kwargs.items():
        setting = _plain(value)
        if setting is not None:
            found[key] = setting
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        number = float(value)
        return number if abs(number) < 1e300 else ("-inf" if number < 0 else "inf" if number > 0 else "nan")
    if isinstance(value, tuple | list) and len(value) == 1 and isinstance(value[0], int):
        return float(value[0])
    return None


def statistics(tensor: Any) -> dict[str, Any]:
    """Mean, spread, extremes, zeros and units that are always zero, of a floating tensor; nothing of others."""
    if not tensor.is_floating_point() or not tensor.numel() or torch._C._functorch.peek_interpreter_stack() is not None:
        return {}
    values = tensor.detach()
    if values.numel() > MOST_VALUES:
        values = values.reshape(-1)[:MOST_VALUES]
    flat = values.reshape(-1).float()
    zeros = flat == 0
    units = zeros.reshape(values.shape[0], -1).all(dim=0) if values.dim() > 1 and values.shape[0] > 1 else zeros
    mean, low, high = flat.mean(), flat.min(), flat.max()
    parts = torch.stack(
        [mean, (flat - mean).square().mean().sqrt(), low, high, zeros.float().mean(), units.float().mean()]
    )
    mean, std, low, high, share, dead = parts.tolist()
    if mean - mean != 0:  # an infinity or NaN among them
        return {
            "finite": bool(torch.isfinite(flat).all()),
            "zeros": share,
            "dead": dead,
            "low": _number(low),
            "high": _number(high),
        }
    return {"mean": mean, "std": std, "low": low, "high": high, "zeros": share, "dead": dead, "finite": True}


def _number(value: float) -> float | None:
    return value if value - value == 0 else None


# Functions with an infinite slope, and which of their inputs must not be zero for it.
STEEP = {
    "sqrt": 0,
    "sqrt_": 0,
    "log": 0,
    "rsqrt": 0,
    "norm": 0,
    "linalg_norm": 0,
    "vector_norm": 0,
    "log2": 0,
    "log10": 0,
}
DIVIDES = frozenset(("div", "__truediv__", "true_divide"))


def _edge(name: str, inputs: list[Any], args: Any, kwargs: Any) -> bool:
    if name in STEEP and inputs and inputs[0].is_floating_point():
        if "norm" in name:
            dim = kwargs.get("dim", args[2] if len(args) > 2 else None)
            size = (
                torch.linalg.vector_norm(inputs[0], dim=dim) if dim is not None else torch.linalg.vector_norm(inputs[0])
            )
            return bool((size == 0).any())
        return bool((inputs[0] == 0).any())
    if name in DIVIDES and len(inputs) > 1:
        return bool((inputs[1] == 0).any())
    if name in ("pow", "__pow__") and inputs and len(args) > 1 and isinstance(args[1], float) and args[1] < 1:
        return bool((inputs[0] == 0).any())
    return False


def may_trace(module: Any, *, alone: bool = False) -> bool:
    """Whether listening changes nothing: nobody else listens or traces, nothing is compiled, and one process trains."""
    if torch._C._len_torch_function_stack() or torch.compiler.is_compiling() or torch._C._get_tracing_state():
        return False
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    ):
        return False
    for one in module.modules():
        if isinstance(one, torch.jit.ScriptModule) or getattr(one, "_compiled_call_impl", None) is not None:
            return False
        if type(one).__module__.startswith(("torch._dynamo", "torch.fx")):
            return False
        # In evaluation mode these have a quick way, which they leave when somebody listens; `alone`, nobody else sees it.
        if (
            not alone
            and not one.training
            and isinstance(one, torch.nn.MultiheadAttention | torch.nn.TransformerEncoderLayer)
        ):
            return False
    return True


def leave(tracer: Tracer) -> bool:
    """Take a mode off, wherever on the stack it is by now; False while one of its calls is under way."""
    if tracer.within:
        return False
    from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode

    if tracer not in _get_current_function_mode_stack():
        return True
    above = []
    while True:
        mode = _pop_mode()
        if mode is tracer:
            break
        above.append(mode)
    for mode in reversed(above):
        _push_mode(mode)
    return True


def enter(tracer: Tracer) -> None:
    """Put it on."""
    from torch.overrides import _push_mode

    _push_mode(tracer)


def place(line: Line) -> dict[str, Any] | None:
    """A line as its record has it."""
    return {"file": line.file, "line": line.line} if line.file else None
