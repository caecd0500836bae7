"""Asks a trained model once more at the end: does it answer the same twice, alone, without padding, from what it may know?"""

import linecache
import random
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

import torch

from ._base import Call, Vital, Watch
from ._trace import Tracer, enter, leave, may_trace

# A batch that is kept for the end: so many bytes, so many rows.
MOST_BYTES = 4_000_000
ROWS = 32
# A model with more weights than this takes too long to be asked a dozen times.
MOST_WEIGHTS = 50_000_000
WEIGHTED = ("Linear", "Conv1d", "Conv2d", "Conv3d")
# Runs of one id at the ends of rows are padding where so many rows have one, of different lengths.
PADDED_ROWS = 3
# Two ways of the same sum differ by rounding; chance differs by much more.
SAME = 1e-3
LENGTHS = 16  # different lengths of batches that are remembered


class Probe(Vital):
    """Keeps one batch of the model that was called most in training, and asks it again when the script is over."""

    kind: ClassVar[str] = "ModelProbe"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.kept: dict[int, tuple[Any, list[Any]]] = {}
        self.calls: dict[int, int] = {}
        self.told: dict[str, Any] | None = None
        self.lengths: set[int] = set()

    def called(self, call: Call) -> None:
        """The first training call of each model is kept, if it is small and of tensors only."""
        first = call.args[0] if call.args else None
        if isinstance(first, torch.Tensor) and first.dim() == 2 and len(self.lengths) < LENGTHS:
            self.lengths.add(first.shape[1])
        if not call.grad:
            return
        key = id(call.module)
        self.calls[key] = self.calls.get(key, 0) + 1
        if key in self.kept or len(self.kept) > 3 or call.kwargs or not call.args:
            return
        if not all(isinstance(one, torch.Tensor) and one.is_cpu and one.dim() for one in call.args):
            return
        if len({one.shape[0] for one in call.args}) != 1 or sum(one.numel() for one in call.args) * 4 > MOST_BYTES:
            return
        if sum(one.numel() for one in call.module.parameters()) > MOST_WEIGHTS:
            return
        self.kept[key] = (weakref.ref(call.module), [one.detach()[:ROWS].clone() for one in call.args])

    def over(self) -> None:
        """The model is asked."""
        self._replicas()
        if not self.kept:
            return
        key = max(self.kept, key=lambda each: self.calls.get(each, 0))
        module, args = self.kept[key][0](), self.kept[key][1]
        if module is None or not may_trace(module, alone=True):
            return
        with undisturbed(module):
            self.told = (self.told or {}) | self._asked(module, args)
        self.kept.clear()

    def _replicas(self) -> None:
        """Parameters that a wrapper for several processes watches, and those that its model has by now."""
        for model in self.watch.models:
            watched = getattr(model, "_module_parameters", None)
            inner = getattr(model, "module", None)
            if not watched or inner is None:
                continue
            has = [one for one in inner.parameters() if one.requires_grad]
            known = {id(one) for one in watched}
            self.told = {
                "model": type(inner).__name__,
                "parameters": len(has),
                "replaced": sum(id(one) not in known for one in has),
            }

    def _asked(self, module: Any, args: list[Any]) -> dict[str, Any]:
        def ask(*given: Any) -> Any:
            output = module(*given)
            output = output[0] if isinstance(output, tuple | list) and output else output
            return output.float() if isinstance(output, torch.Tensor) else None

        tracer = Tracer(self.watch.observer, 0, {})
        tracer.statistics, tracer.always = False, True
        enter(tracer)
        try:
            whole = ask(*args)
        finally:
            calls = tracer.rows
            tracer.stop()
            leave(tracer)
        kinds = [type(one).__name__ for one in module.modules()]
        names = {row["name"] for row in calls}
        told = {
            "model": type(module).__name__,
            "attention": "scaled_dot_product_attention" in names
            or "multi_head_attention_forward" in names
            or ("softmax" in names and "matmul" in names),
            "recurrent": bool(names & {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell"}),
            **_layers(module, kinds),
            **_dropouts(calls),
        }
        if whole is None or not whole.dim() or not bool(torch.isfinite(whole).all()):
            return told
        spread = float(whole.std()) or 1.0
        told["outputs"] = list(whole.shape)
        told["repeat"] = _apart(whole, ask(*args), spread)
        if (told["repeat"] or 0.0) > SAME or whole.shape[0] != args[0].shape[0] or whole.shape[0] < 4:
            return told
        for name, question in (("mixing", _mixing), ("padding", _padding), ("later", _order), ("linear", _linear)):
            answer = self.watch.observer.guarded(f"vital probe {name}", question, ask, args, whole, spread)
            if answer:
                told |= answer
        return told

    def summary(self) -> dict[str, Any] | None:
        """What it answered."""
        return {**self.told, "lengths": len(self.lengths)} if self.told else None


def _layers(module: Any, kinds: list[str]) -> dict[str, Any]:
    layers = [one for one in module.modules() if type(one).__name__ in WEIGHTED]
    narrow = False
    for before, after in pairwise(layers):
        width = getattr(before, "out_features", None)
        if width is not None and hasattr(after, "out_features"):
            narrow = narrow or width < min(before.in_features, after.out_features)
    return {"weighted": len(layers), "narrow": narrow}


def _dropouts(calls: list[dict[str, Any]]) -> dict[str, Any]:
    for row in calls:
        settings = row["settings"]
        if "dropout" in row["name"] and settings.get("training") is True and settings.get("p", 0.5):
            where = row["where"]
            if where is None:
                continue
            words = linecache.getline(where["file"], where["line"])
            return {
                "dropout_where": where,
                "dropout_share": float(settings.get("p", 0.5)),
                "dropout_said": "True" in words,
            }
    return {}


def _apart(one: Any, other: Any, spread: float) -> float | None:
    if other is None or one.shape != other.shape or not bool(torch.isfinite(other).all()):
        return None
    return float((one - other).abs().max()) / spread


def _mixing(ask: Callable[..., Any], args: list[Any], whole: Any, spread: float) -> dict[str, Any]:
    half = whole.shape[0] // 2
    # What runs over the batch as over time is felt by those that come later only.
    parts = (
        _apart(whole[:half], ask(*(one[:half] for one in args)), spread),
        _apart(whole[half:], ask(*(one[half:] for one in args)), spread),
    )
    return {"mixing": max((part for part in parts if part is not None), default=None)}


def _padding(ask: Callable[..., Any], args: list[Any], whole: Any, spread: float) -> dict[str, Any]:
    """Rows that end in the same id, each once without that end: what they mean is the same."""
    ids = args[0]
    if len(args) != 1 or ids.dim() != 2 or ids.is_floating_point() or whole.dim() != 2 or ids.shape[1] < 3:
        return {}
    ends = ids[:, -1]
    pad = int(ends.mode().values)
    lengths = ids.shape[1] - (ids.flip(1) != pad).float().argmax(dim=1)
    padded = ((lengths < ids.shape[1]) & (lengths > 1)).nonzero().flatten().tolist()
    inside = any(bool((ids[row, : int(lengths[row])] == pad).any()) for row in padded)
    if len(padded) < PADDED_ROWS or len({int(lengths[row]) for row in padded}) < PADDED_ROWS - 1 or inside:
        return {}
    worst = 0.0
    for row in padded[:8]:
        alone = ask(ids[row : row + 1, : int(lengths[row])])
        worst = max(worst, _apart(whole[row : row + 1], alone, spread) or 0.0)
    try:  # and all of them with as much padding again
        longer = ask(torch.cat([ids, torch.full_like(ids, pad)], dim=1))
    except (RuntimeError, IndexError):  # there is no place for more
        longer = None
    if longer is not None:
        worst = max(worst, _apart(whole, longer, spread) or 0.0)
    return {"padding": worst, "pad": pad}


def _order(ask: Callable[..., Any], args: list[Any], whole: Any, spread: float) -> dict[str, Any]:
    """For sequences of ids: on what does an output rest, what comes later, what came earlier, their order?"""
    ids = args[0]
    if len(args) != 1 or ids.dim() != 2 or ids.is_floating_point() or ids.dtype == torch.bool or ids.shape[1] < 6:
        return {}
    steps, middle = ids.shape[1], ids.shape[1] // 2
    told: dict[str, Any] = {}
    if whole.dim() == 3 and whole.shape[1] == steps:
        changed = ids.clone()
        changed[:, middle:] = ids.roll(1, 0)[:, middle:]
        told["later"] = _apart(whole[:, :middle], ask(changed)[:, :middle], spread)
        changed = ids.clone()
        changed[:, : middle - 1] = ids.roll(1, 0)[:, : middle - 1]
        told["earlier"] = _apart(whole[:, middle:], ask(changed)[:, middle:], spread)
        places = torch.arange(steps - 1, -1, -1)
        told["order"] = _apart(whole[:, places], ask(ids[:, places]), spread)
    elif whole.dim() == 2:
        told["order"] = _apart(whole, ask(ids.flip(1)), spread)
    return told


def _linear(ask: Callable[..., Any], args: list[Any], whole: Any, spread: float) -> dict[str, Any]:
    """An affine function of a + b - c is that of a plus that of b minus that of c."""
    x = args[0]
    if len(args) != 1 or not x.is_floating_point() or x.shape[0] < 6:
        return {}
    third = x.shape[0] // 3
    a, b, c = x[:third], x[third : 2 * third], x[2 * third : 3 * third]
    expected = whole[:third] + whole[third : 2 * third] - whole[2 * third : 3 * third]
    return {"linear": _apart(expected, ask(a + b - c), spread)}


@contextmanager
def undisturbed(module: Any, *, training: bool | None = False) -> Iterator[None]:
    """The model in evaluation mode, or as it stands where `training` is None; after it modes, buffers and all generators of chance are as they were."""
    modes = [(one, one.training) for one in module.modules()]
    buffers = [(one, one.detach().clone()) for one in module.buffers()]
    chance = (torch.get_rng_state(), random.getstate())
    numpy = _numpy_state()
    try:
        for one, _ in modes:
            one.training = one.training if training is None else training
        with torch.no_grad():
            yield
    finally:
        for one, mode in modes:
            one.training = mode
        with torch.no_grad():
            for one, before in buffers:
                one.copy_(before)
        torch.set_rng_state(chance[0])
        random.setstate(chance[1])
        if numpy is not None:
            numpy[0].set_state(numpy[1])


def _numpy_state() -> Any:
    import sys

    numpy = sys.modules.get("numpy")
    chance = getattr(numpy, "random", None)
    return (chance, chance.get_state()) if chance is not None else None


VITAL = Probe
