"""The room's own machinery: what a gauge is. One file declares one as `GAUGE`; its name is the file's."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from netdyno import plugins
from netdyno.aboard.vitals._base import Vital, Watch
from netdyno.monitor.subject import Subject

Point = Callable[..., None]
# Values of each series that other gauges can read back: an epoch's worth of looks.
KEPT = 512
# Copies on their way from a device; where more wait, the device is behind by that many looks.
MOST_LATE = 64


class Told(NamedTuple):
    """A series: its unit ("" for a share or a bare number) and what its values are."""

    unit: str
    says: str


class Shared:
    """What the gauges of one watch have in common: each other's newest values, and the names of parameters."""

    def __init__(self) -> None:
        self.board: dict[str, deque[tuple[int, float]]] = {}
        self.layers: dict[int, tuple[int, list[tuple[str, Any]]]] = {}


_shared: WeakKeyDictionary[Watch, Shared] = WeakKeyDictionary()


class Gauge(Vital):
    """A vital whose looks become points of series. Subclasses define the hooks of a vital that they need.

    `tell(name, value)` puts one value into the journal; names are paths such as `gradient_norm/layers.0`, and `series` says
    what each is: a name, or the beginning of one and `*`. `event(kind, **told)` writes a line, for what is no number. Hooks
    without a prefix are called on updates that the budget has room for, those that begin with `every_` in updates that are
    listened to, and those that begin with `always_` in each update: they must take some microseconds. Nothing in a hook may
    wait for a device: what lies there goes through `later`. `dear` gauges ride only when everything is asked for.
    """

    kind: ClassVar[str] = ""
    dear: ClassVar[bool] = False
    series: ClassVar[dict[str, Told]] = {}

    def __init__(self, watch: Watch, subject: Subject, point: Point, event: Callable[..., None]) -> None:
        super().__init__(watch)
        self.subject = subject
        self.point = point
        self.event = event
        self.shared = _shared.setdefault(watch, Shared())
        self._on_its_way: deque[tuple[int, Any, Any, Callable[[Any, int], None]]] = deque(maxlen=MOST_LATE)

    @property
    def at(self) -> int:
        """The update that is under way; in an `update` hook it is over, and `watch.updates` is its number."""
        return self.watch.updates + 1

    def tell(self, name: str, value: float, update: int | None = None) -> None:
        """One value of a series, at an update (the last one that is over, where none is given)."""
        at = self.watch.updates if update is None else update
        kept = self.shared.board.get(name)
        if kept is None:
            kept = self.shared.board[name] = deque(maxlen=KEPT)
        kept.append((at, value))
        self.point(name, value, update=at)

    def later(self, values: Any, then: Callable[[Any, int], None], update: int | None = None) -> None:
        """Call `then(numpy array, update)` when the numbers of a tensor are here: now, or at a later look if a device has them."""
        at = self.at if update is None else update
        self.arrived()
        if values.device.type != "cuda":
            then(_numbers(values), at)
            return
        import torch

        copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        copy.copy_(values, non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._on_its_way.append((at, copy, event, then))

    def arrived(self) -> None:
        """Tell what has come from the device since."""
        while self._on_its_way and self._on_its_way[0][2].query():
            at, copy, _, then = self._on_its_way.popleft()
            then(_numbers(copy), at)

    def models(self) -> dict[str, Any]:
        """Those that were named, or else those that were seen in training."""
        return self.subject.models or {f"model{at or ''}": model for at, model in enumerate(self.watch.models)}

    def optimizers(self) -> tuple[Any, ...]:
        """Those that were named, or else those that stepped."""
        return self.subject.optimizers or tuple(self.watch.optimizers)

    def mark(self, optimizer: Any) -> str:
        """What stands behind the names of a series to tell optimizers apart: nothing for the first, `@1` for the second."""
        for number, one in enumerate(self.optimizers()):
            if one is optimizer:
                return f"@{number}" if number else ""
        return f"@{len(self.optimizers())}" if self.optimizers() else ""

    def layers(self, optimizer: Any) -> list[tuple[str, Any]]:
        """Parameters of an optimizer, each with the name of the module that holds it."""
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        known = self.shared.layers.get(id(optimizer))
        if known is None or known[0] != count:
            known = self.shared.layers[id(optimizer)] = count, _named(self.models(), optimizer)
        return known[1]

    def tick(self, seconds: float) -> None:  # noqa: ARG002  for those that have a use for it
        """Once a second or so, on another thread: for what needs no tensor. Must not touch the training's state."""
        if self._on_its_way and self.watch.observer.training_thread in (-1, threading.get_ident()):
            self.arrived()  # the run is over: nobody looks again

    def summary(self) -> dict[str, Any] | None:
        """Gauges tell series, and no evidence."""
        return None


def _numbers(tensor: Any) -> Any:
    import torch

    tensor = tensor.detach()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    return tensor.cpu().numpy()


def _named(models: dict[str, Any], optimizer: Any) -> list[tuple[str, Any]]:
    names: dict[int, str] = {}
    for model_name, model in models.items():
        for name, parameter in model.named_parameters():
            layer = plain_name(name.rpartition(".")[0])
            whole = f"{model_name}.{layer}" if layer and len(models) > 1 else layer or model_name
            names.setdefault(id(parameter), whole)
    return [
        (names.get(id(parameter), f"group{number}"), parameter)
        for number, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    ]


def plain_name(name: str) -> str:
    """A module's path without what wrappers put into it.

    >>> plain_name("module._orig_mod.layers.0")
    'layers.0'
    """
    return name.removeprefix("module.").replace("_orig_mod.", "").removesuffix("_orig_mod").removeprefix("module.")


def readable(tensor: Any) -> Any:
    """The part of a tensor that lies in this process, to be read; None where nothing can be read without side effects."""
    import torch

    if tensor is None or tensor.is_sparse or tensor.layout != torch.strided or not tensor.is_floating_point():
        return None
    tensor = getattr(
        tensor, "_local_tensor", tensor
    ).detach()  # of a sharded one: asking for the rest would wait for others
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.numel() or tensor.device.type == "meta":
        return None
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return None  # a graph is being recorded: what we did would be played back with it
    return tensor


def first_tensor(output: Any, depth: int = 0) -> Any:
    """The tensor that a model's output is, or begins with."""
    import torch

    if isinstance(output, torch.Tensor):
        return output
    if isinstance(output, dict):
        output = [output["logits"]] if "logits" in output else list(output.values())
    if isinstance(output, list | tuple) and depth < 3:
        return next((one for item in output[:16] if (one := first_tensor(item, depth + 1)) is not None), None)
    return None


def spread_out(tensor: Any, most: int) -> Any:
    """At most about `most` values of a tensor, evenly from all of it, as one row; a view where there is one."""
    count = tensor.numel()
    if count <= most:
        return tensor.reshape(-1)
    # An odd distance does not fall on the same column of each row, as a power of two does.
    step = -(-count // most) | 1
    if tensor.is_contiguous():
        return tensor.as_strided((-(-count // step),), (step,), tensor.storage_offset())
    return tensor.reshape(-1)[::step]


def norms(tensors: list[Any]) -> Any:
    """The norm of each tensor as a row of float32, in a few calls whatever their number; all on the first one's device."""
    import torch

    half = any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in tensors)
    if half and any(tensor.dtype == torch.float64 for tensor in tensors):
        tensors = [tensor.double() for tensor in tensors]  # rare: a call for all of them takes one kind of numbers
        half = False
    # A norm that is larger than half precision holds must not come out infinite.
    found: Any = torch._foreach_norm(tensors, 2, torch.float32) if half else torch._foreach_norm(tensors)
    if any(one.device != found[0].device or one.dtype != found[0].dtype for one in found):
        found = [one.to(found[0].device, torch.float32, non_blocking=True) for one in found]
    return torch.stack(found)


def unit(name: str) -> Told | None:
    """What a series of any gauge is, by its name.

    >>> unit("gradient_norm/layers.0").unit
    ''
    """
    for _, kind in gauges():
        for pattern, told in kind.series.items():
            if name.partition("@")[0] == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
                return told
    return None


def gauges() -> Iterator[tuple[str, type[Gauge]]]:
    """Every gauge of the room and of outside packages, by name; one that cannot be imported is left out here, and
    `netdyno selftest` and the room's test say so."""
    for name, found in plugins.modules("monitor.gauges"):
        if isinstance(found, ModuleType):
            yield name, found.GAUGE
