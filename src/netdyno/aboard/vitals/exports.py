"""What is made of a model to run instead of it, how that answers on real inputs, and what a served model is given."""

import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from ..boot import after_import
from ..frames import Line, user_line
from ..patches import Patches
from ._base import Call, Vital, Watch
from ._exports_answers import answers, inner_peak, layer_ratios, spread_of, tensor_of
from ._exports_records import Records, skews
from .modes import dropping, norming

# Things made of models, and models that are held for them: one of 64 MB is no burden, a larger one is the user's to keep.
MOST, HELD_BYTES = 6, 64 << 20
# Real inputs that are kept of one of them.
CALLS, ROWS, KEPT_BYTES = 64, 256, 4 << 20
# Outputs that are shares, after which a sigmoid or softmax is listened for.
WINDOWS = 64
# Evaluations of a model whose outputs are asked whether they are shares; then one in so many: what a model gives it goes on giving.
ASKED, SELDOM = 64, 16


class Made:
    """Something made of a model: what it was made with, and what it was asked later."""

    def __init__(self, how: str, source: Any, example: Any, line: Line) -> None:
        self.how = how
        self.model = type(source).__name__ if source is not None else how
        self.source = _held(source)
        self.made: Any = None
        self.awake = _awake(source)
        self.example = spread_of(example)
        self.calibrated = False
        self.line = line
        self.asked: list[tuple[Any, Any]] = []
        self.rows = self.bytes = 0

    def keep(self, given: Any, output: Any) -> None:
        """One question and its answer, if there is room."""
        given, output = tensor_of(given), tensor_of(output)
        if given is None or output is None or not given.dim() or len(self.asked) >= CALLS or self.rows >= ROWS:
            return
        size = given.numel() * given.element_size()
        if self.bytes + size > KEPT_BYTES:
            return
        self.rows += given.shape[0]
        self.bytes += size
        self.asked.append((given.detach().clone(), output.detach().clone()))


class Exports(Vital):
    """Stands beside the calls that export, and beside what came of them."""

    kind: ClassVar[str] = "ShippingUse"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.made: list[Made] = []
        self.by_id: dict[int, Made] = {}
        self.checked: set[int] = set()
        self.by_file: dict[str, Made] = {}
        self.collecting = self.listens = False
        self.calibration: list[Any] = []
        self.records: dict[tuple[int, Line], Records] = {}
        self.names: dict[int, str] = {}
        self.window: Patches | None = None
        self.windows = 0
        self.evaluations: dict[int, int] = {}
        self.previous: Any = None
        self.doubled: dict[tuple[str, Line], list[float]] = {}
        self.told: dict[str, Any] | None = None
        self._listen()

    def _listen(self) -> None:
        import torch

        patches = self.watch.observer.replacements
        patches.replace("vital trace", torch.jit, "trace", self._making("trace", 0, 1, "func", "example_inputs"))
        if "torch.export" in sys.modules:
            patches.replace("vital export", torch.export, "export", self._making("export", 0, 1, "mod", "args"))
            program = getattr(torch.export, "ExportedProgram", None)
            if program is not None:
                patches.replace("vital exported", program, "module", self._unpacking)
        quantization = sys.modules.get("torch.ao.quantization")
        for owner in (quantization, getattr(quantization, "quantize", None), sys.modules.get("torch.quantization")):
            if hasattr(owner, "quantize_dynamic"):
                patches.replace("vital int8", owner, "quantize_dynamic", self._making("int8", 0, -1, "model", ""))
        _once(
            "torch.onnx",
            lambda module: patches.replace("vital onnx", module, "export", self._making("onnx", 0, 1, "model", "args")),
        )
        _once("onnxruntime.capi.onnxruntime_inference_collection", self._listen_to_sessions)
        _once("onnxruntime.quantization.calibrate", self._listen_to_calibration)

    def _look(self, method: Callable[..., Any], *what: Any) -> None:
        watch = self.watch
        if not watch.busy and not watch.ended and watch.observer.candidate() and not watch.observer.is_compiling():
            watch._call([("exports", method)], what)

    # what is made

    def _making(self, how: str, model_at: int, args_at: int, model_name: str, args_name: str) -> Callable[[Any], Any]:
        def replacement(original: Any) -> Any:
            def make(*args: Any, **kwargs: Any) -> Any:
                source = args[model_at] if len(args) > model_at else kwargs.get(model_name)
                example = args[args_at] if 0 <= args_at < len(args) else kwargs.get(args_name)
                kept: list[Made] = []
                line = user_line(sys._getframe(1))
                self._look(lambda: kept.append(Made(how, source, example, line)))
                result = original(*args, **kwargs)
                if kept:
                    file = args[2] if len(args) > 2 else kwargs.get("f")
                    self._look(self._made, kept[0], result, file)
                return result

            return make

        return replacement

    def _made(self, made: Made, result: Any, file: Any) -> None:
        if len(self.made) >= MOST or not hasattr(made.source(), "named_modules"):
            return
        self.made.append(made)
        if isinstance(file, str | os.PathLike):
            self.by_file[os.path.realpath(file)] = made
        if result is not None:
            made.made = _held(result)
            self.by_id[id(result)] = made
            if made.how == "int8" and not self.listens:
                self.listens = True
                # Its packed weights are no parameters, so that nobody takes it for a model.
                import torch

                self.watch.observer.replacements.replace("vital int8 call", torch.nn.Module, "__call__", self._asking)

    def _unpacking(self, original: Any) -> Any:
        def module(program: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(program, *args, **kwargs)
            made = self.by_id.get(id(program))
            if made is not None and made.made() is program:
                self.by_id[id(result)] = made
            return result

        return module

    def _asking(self, original: Any) -> Any:
        def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807  it is one
            result = original(module, *args, **kwargs)
            made = self.by_id.get(id(module))
            if made is not None and made.how == "int8" and len(made.asked) < CALLS:
                self._look(made.keep, args[0] if args else None, result)
            return result

        return __call__

    # sessions of another library

    def _listen_to_sessions(self, module: Any) -> None:
        patches = self.watch.observer.replacements
        patches.replace("vital session", module.InferenceSession, "__init__", self._opening)
        patches.replace("vital run", module.InferenceSession, "run", self._running)

    def _opening(self, original: Any) -> Any:
        def __init__(session: Any, source: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807  it is one
            original(session, source, *args, **kwargs)
            if not self.collecting:
                self._look(self._opened, session, source)

        return __init__

    def _opened(self, session: Any, file: Any) -> None:
        if not isinstance(file, str | os.PathLike):
            return
        made = self.by_file.get(os.path.realpath(file))
        if made is None and self.by_file and len(self.made) < MOST and _quantised(file):
            exported = next(reversed(self.by_file.values()))
            made = Made("int8", exported.source(), None, exported.line)
            if self.calibration:
                import torch

                made.example, made.calibrated = spread_of(torch.cat(self.calibration)), True
            self.made.append(made)
            self.by_file[os.path.realpath(file)] = made
        if made is not None:
            self.by_id[id(session)] = made
            if made.how == "onnx":
                made.made = _held(session)

    def _running(self, original: Any) -> Any:
        def run(session: Any, names: Any, feed: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(session, names, feed, *args, **kwargs)
            made = self.by_id.get(id(session))
            if made is not None and not self.collecting and len(made.asked) < CALLS:
                self._look(self._answered, made, feed, result)
            return result

        return run

    def _answered(self, made: Made, feed: Any, result: Any) -> None:
        import torch

        first = next(iter(feed.values()))
        made.keep(torch.as_tensor(first), torch.as_tensor(result[0]))

    def _listen_to_calibration(self, module: Any) -> None:
        patches = self.watch.observer.replacements
        for name, value in list(vars(module).items()):
            if isinstance(value, type) and "collect_data" in vars(value):
                patches.replace(f"vital {name}", value, "collect_data", self._calibrating)

    def _calibrating(self, original: Any) -> Any:
        def collect_data(calibrator: Any, reader: Any, *args: Any, **kwargs: Any) -> Any:
            inner = getattr(reader, "get_next", None)
            self.collecting = True
            try:
                if inner is not None:
                    reader.get_next = self._noting(inner)
                return original(calibrator, reader, *args, **kwargs)
            finally:
                self.collecting = False
                getattr(reader, "__dict__", {}).pop("get_next", None)

        return collect_data

    def _noting(self, inner: Any) -> Any:
        def get_next() -> Any:
            feed = inner()
            if feed and len(self.calibration) < CALLS:
                self._look(self._calibrated, feed)
            return feed

        return get_next

    def _calibrated(self, feed: Any) -> None:
        import torch

        self.calibration.append(torch.as_tensor(next(iter(feed.values()))).reshape(-1)[:65536].float())

    # calls

    def every_called(self, call: Call) -> None:
        """Something that was made of a model is asked."""
        if self.by_id:
            made = self.by_id.get(id(call.module))
            if made is not None and made.how != "int8" and len(made.asked) < CALLS:
                made.keep(call.args[0] if call.args else None, call.output)
        if call.grad:
            self._close_window()
            return
        if id(call.module) not in self.by_id:
            self._remember(call)
            self._half(call.module, call)
        asked = self.evaluations[id(call.module)] = self.evaluations.get(id(call.module), 0) + 1
        if self.windows < WINDOWS and (asked <= ASKED or not asked % SELDOM):
            self._open_window(call)
        else:
            self._close_window()

    def every_update(self, _number: int) -> None:
        """Whatever was listened for after an evaluation is over."""
        if self.window is not None:
            self._close_window()

    def _remember(self, call: Call) -> None:
        """Which records a model meets on this line: a few copied rows."""
        given, output = tensor_of(call.args[0] if call.args else None), tensor_of(call.output)
        if given is None or output is None or not given.is_floating_point() or given.dim() < 2 or not given.shape[0]:
            return
        if given.element_size() < 4 or given.numel() < 4 * given.shape[0]:
            return
        key = (id(call.module), call.line)
        known = self.records.get(key)
        if known is None:
            if sum(one == key[0] for one, _ in self.records) >= 4 or len(self.records) >= 16:
                return
            known = self.records[key] = Records(type(call.module).__name__, call.line)
        known.take(given, output, self.watch.updates)

    def _half(self, module: Any, call: Call) -> None:
        if id(module) in self.checked:
            return
        self.checked.add(id(module))
        import torch

        first = next((one for one in module.parameters() if one.is_floating_point()), None)
        if first is None or first.dtype != torch.float16 or len(self.made) >= MOST:
            return
        made = Made("half", module, None, call.line)
        made.awake = []
        made.keep(call.args[0] if call.args else None, call.output)
        self.made.append(made)
        self.by_id[id(module)] = made

    # a second sigmoid or softmax

    def _open_window(self, call: Call) -> None:
        output = tensor_of(call.output)
        if output is None or not output.is_floating_point() or not output.numel() or _compiled(call.module):
            return
        kind = _shares(output)
        if kind is None:
            return
        import torch

        self.windows += 1
        self.previous = weakref.ref(output)
        if self.window is not None:
            return
        # It stays for the round: `softmax(model(x))` looks the function up before it calls the model.
        self.window = Patches()
        for owner in (torch, torch.Tensor):
            self.window.replace(f"vital {kind}", owner, kind, lambda original: self._again(kind, original))

    def _close_window(self) -> None:
        if self.window is not None:
            self.window.undo()
            self.window = None

    def _again(self, kind: str, original: Any) -> Any:
        def function(given: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(given, *args, **kwargs)
            before = self.previous() if self.previous is not None else None
            if self.window is not None and before is not None and _is_same(given, before):
                self._look(self._twice, kind, given, result, user_line(sys._getframe(1)))
            return result

        return function

    def _twice(self, kind: str, given: Any, result: Any, line: Line) -> None:
        if _shares(given) != kind:
            return
        known = self.doubled.setdefault((kind, line), [0.0, 0.0, 0.0])
        known[0] += 1
        known[1] += float(_top(given, kind))
        known[2] += float(_top(result, kind))

    # the end

    def over(self) -> None:
        """Ask the models what was asked of what was made of them."""
        self._close_window()
        observer = self.watch.observer
        told = [observer.guarded("vital exports", self._compared, made) for made in self.made if made.asked]
        self.told = {
            "derived": [one for one in told if one is not None],
            "skews": observer.guarded("vital exports", skews, list(self.records.items())) or [],
            "doubled": [
                {"function": kind, "times": int(n), "before": before / n, "after": after / n, "where": _place(line)}
                for (kind, line), (n, before, after) in self.doubled.items()
            ],
        }

    def _compared(self, made: Made) -> dict[str, Any] | None:
        source = made.source()
        if source is None:
            return None
        told: dict[str, Any] = {
            "how": made.how, "model": made.model, "awake": made.awake[:6], "example": made.example, "calibrated": made.calibrated,
            "where": _place(made.line), **answers(source, made.asked, made.how, made.example),
        }  # fmt: skip
        if made.how == "half":
            told |= inner_peak(source, made.asked)
        if made.how == "int8" and made.made is not None and made.made() is not None:
            told["layers"] = layer_ratios(source, made.made(), made.asked)
        return told

    def summary(self) -> dict[str, Any] | None:
        """What was made, and how it answers."""
        return self.told if self.told is not None and any(self.told.values()) else None


def _compiled(module: Any) -> bool:
    """Whether the compiler listens to it: it must not meet a function of ours."""
    return type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None


def _is_same(given: Any, before: Any) -> bool:
    """Whether a tensor is another, or a view of all of it."""
    if given is before:
        return True
    return hasattr(given, "data_ptr") and given.data_ptr() == before.data_ptr() and given.numel() == before.numel()


def _once(name: str, then: Callable[[Any], None]) -> None:
    module = sys.modules.get(name)
    if module is not None:
        then(module)
    else:
        after_import(name, then)


def _held(thing: Any) -> Callable[[], Any]:
    """The thing itself where it is small; a weak reference where it is not."""
    parameters = getattr(thing, "parameters", None)
    size = 0
    if callable(parameters):
        try:
            size = sum(one.numel() * one.element_size() for one in parameters())
        except (TypeError, RuntimeError, AttributeError):
            size = 0
    if size <= HELD_BYTES:
        return lambda: thing
    return weakref.ref(thing)


def _awake(source: Any) -> list[str]:
    if not hasattr(source, "named_modules"):
        return []
    return [
        name or type(part).__name__
        for name, part in source.named_modules()
        if part.training and (dropping(part) or norming(part))
    ]


def _quantised(file: Any) -> bool:
    with open(file, "rb") as stream:
        return b"QuantizeLinear" in stream.read(HELD_BYTES)


def _shares(tensor: Any) -> str | None:
    """Which function these numbers come from, by what it guarantees: rows that add up to 1, or numbers strictly between."""
    values = tensor.detach().float()
    low, high = float(values.min()), float(values.max())
    if low < 0 or high > 1 or high - low == 0:
        return None
    if values.dim() >= 2 and values.shape[-1] > 1 and bool(((values.sum(-1) - 1).abs() < 1e-3).all()):
        return "softmax"
    return "sigmoid" if low > 0 and high < 1 else None


def _top(values: Any, kind: str) -> Any:
    values = values.detach().float()
    return values.max(-1).values.mean() if kind == "softmax" else (values - 0.5).abs().mean() + 0.5


def _place(line: Line) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line.file else None


VITAL = Exports
