"""Counts the work of a model: floating-point operations and bytes, per layer and per step."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from netdyno.measure.step import forward_loss, train_on, turning
from netdyno.measure.stopwatch import Clock, Reading, between, thread_clock
from netdyno.records.environment import Ceilings
from netdyno.records.evidence import Layer, LayerTable, Place
from netdyno.targets.subject import Batch, Subject, tensors

Shape = tuple[int, ...]


def attention_flops(query: Shape, key: Shape, value: Shape) -> int:
    """Scores and weighted sum: two products per head. A causal mask is not deducted, as is the custom."""
    *lead, rows, width = query
    heads = _product(lead)
    return 2 * heads * rows * key[-2] * (width + value[-1])


def attention_backward_flops(query: Shape, key: Shape, value: Shape) -> int:
    """Scores once more, then the gradients of weights, value, query and key: five products."""
    *lead, rows, width = query
    heads = _product(lead)
    return 2 * heads * rows * key[-2] * (3 * width + 2 * value[-1])


def recurrent_flops(steps_and_batch: int, input_weight: Shape, hidden_weight: Shape) -> int:
    """One layer of an LSTM or GRU in one direction: both products at every time step."""
    return 2 * steps_and_batch * (_product(input_weight) + _product(hidden_weight))


def _attention(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return attention_flops(tuple(query.shape), tuple(key.shape), tuple(value.shape))


def _attention_backward(_: Tensor, query: Tensor, key: Tensor, value: Tensor, *__: Any, **___: Any) -> int:
    return attention_backward_flops(tuple(query.shape), tuple(key.shape), tuple(value.shape))


def _recurrent(given: Tensor, input_weight: Tensor, hidden_weight: Tensor, *_: Any, **__: Any) -> int:
    return recurrent_flops(_product(given.shape[:2]), tuple(input_weight.shape), tuple(hidden_weight.shape))


def _recurrent_backward(given: Tensor, input_weight: Tensor, hidden_weight: Tensor, *_: Any, **__: Any) -> int:
    return 2 * _recurrent(given, input_weight, hidden_weight)


_aten = torch.ops.aten
# What torch's own counter (2.13) does not know, so that it counts 0.
MISSING: dict[Any, Callable[..., int]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _aten.mkldnn_rnn_layer: _recurrent,
    _aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
# These read only the rows they are asked for, not the table that they are given.
GATHERS = (_aten.embedding, _aten.index, _aten.index_select, _aten.gather)
# These only set memory aside.
EMPTY = (_aten.empty, _aten.empty_like, _aten.empty_strided, _aten.new_empty, _aten.new_empty_strided)


class Counting(TorchDispatchMode):
    """Counts operations and bytes of everything that runs inside it: `flops`, `bytes`, and flops per dtype.

    `bytes` is what each operator must read and write when it runs by itself, as it does without a compiler.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0.0
        self.bytes = 0.0
        self.by_dtype: dict[str, float] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        settings = kwargs or {}
        out = func(*args, **settings)
        packet = func._overloadpacket
        self.bytes += moved(func, (args, settings), out)
        if packet in MISSING:
            flops = float(MISSING[packet](*args, **settings))
        elif packet in flop_registry:
            flops = float(flop_registry[packet](*args, **settings, out_val=out))
        else:
            return out
        self.flops += flops
        dtype = next((str(item.dtype).removeprefix("torch.") for item in tensors(args) if item.is_floating_point()), "")
        self.by_dtype[dtype] = self.by_dtype.get(dtype, 0.0) + flops
        return out


def moved(func: Any, given: Any, out: Any) -> int:
    """Bytes that one operator reads and writes: nothing for a view, only the rows read for a gather."""
    packet = func._overloadpacket
    if packet in EMPTY:
        return 0
    written, read = _distinct(tensors(out)), _distinct(tensors(given))
    if packet in GATHERS:
        # The rows that come out were read once from the table and written once.
        table, *indices = tensors(given)
        return 2 * sum(written.values()) + sum(_distinct(indices).values()) if table.numel() else 0
    shared = {address for address, _ in written} & {address for address, _ in read}
    if shared and not func._schema.is_mutable:
        return 0
    return sum(read.values()) + sum(written.values())


def _distinct(items: list[Tensor]) -> dict[tuple[int, int], int]:
    found = {}
    for item in items:
        if item.layout == torch.strided and item.numel():
            storage = item.untyped_storage()
            # An expanded tensor has more elements than memory behind it.
            found[storage.data_ptr(), int(item.storage_offset())] = min(item.nbytes, storage.nbytes())
    return found


@dataclass
class _Call:
    """What one module did in one forward pass, without what the modules inside it did."""

    kind: str
    leaf: bool = True
    flops: float = 0.0
    bytes: float = 0.0
    seconds: float = 0.0
    edges: float = 0.0


@dataclass
class _Frame:
    call: _Call
    flops: float
    bytes: float
    since: Reading
    inside_flops: float = 0.0
    inside_bytes: float = 0.0
    inside_s: float = 0.0
    children: int = 0


@dataclass
class _Watcher:
    """Forward hooks on every module: exclusive work and time per module path."""

    counting: Counting | None
    clock: Clock
    calls: dict[str, _Call] = field(default_factory=dict)
    stack: list[_Frame] = field(default_factory=list)

    def enter(self, path: str, module: nn.Module) -> None:
        call = self.calls.setdefault(path, _Call(type(module).__name__))
        flops, moved_bytes = self._counts()
        self.stack.append(_Frame(call, flops, moved_bytes, self.clock()))

    def leave(self, module: nn.Module, given: Any, out: Any) -> None:
        now = self.clock()
        frame = self.stack.pop()
        flops, moved_bytes = self._counts()
        flops, moved_bytes = flops - frame.flops, moved_bytes - frame.bytes
        seconds = between(frame.since, now).own
        frame.call.flops += flops - frame.inside_flops
        frame.call.bytes += moved_bytes - frame.inside_bytes
        frame.call.seconds += max(0.0, seconds - frame.inside_s)
        frame.call.leaf = frame.call.leaf and not frame.children
        frame.call.edges += edge_bytes(module, given, out)
        if self.stack:
            outer = self.stack[-1]
            outer.children += 1
            outer.inside_flops += flops
            outer.inside_bytes += moved_bytes
            outer.inside_s += seconds

    def _counts(self) -> tuple[float, float]:
        return (self.counting.flops, self.counting.bytes) if self.counting is not None else (0.0, 0.0)


def edge_bytes(module: nn.Module, given: Any, out: Any) -> float:
    """Bytes that a layer must move at least: in, weights, out. Of a table only the rows that are read."""
    read, written = tensors(given), tensors(out)
    weights = _nbytes(list(module.parameters(recurse=False)))
    if isinstance(module, nn.Embedding):
        weights = _nbytes(written)
    elif isinstance(module, nn.EmbeddingBag):
        indices = max((item.numel() for item in read), default=0)
        weights = indices * module.embedding_dim * module.weight.element_size()
    return float(_nbytes(read) + weights + _nbytes(written))


@contextlib.contextmanager
def watching(model: nn.Module, watcher: _Watcher) -> Iterator[None]:
    """`watcher` hears of every forward call of every module inside the block."""
    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(_entering(watcher, path), with_kwargs=True))
        handles.append(module.register_forward_hook(_leaving(watcher), with_kwargs=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _entering(watcher: _Watcher, path: str) -> Callable[..., None]:
    def enter(module: nn.Module, _: Any, __: Any) -> None:
        watcher.enter(path, module)

    return enter


def _leaving(watcher: _Watcher) -> Callable[..., None]:
    def leave(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
        watcher.leave(module, (args, kwargs), out)

    return leave


def layers(
    model: nn.Module, forward: Callable[[], Any], *, clock: Clock | None = None, repeats: int = 5
) -> list[Layer]:
    """Every module that does work of its own in `forward()`, with the median of its seconds over `repeats` calls.

    A module that calls no other is a leaf, and its bytes are in, weights and out. One that calls others is listed
    when it runs operators itself (attention, a residual), with the bytes that those move.
    """
    clock = clock or thread_clock()
    counting = Counting()
    counted = _Watcher(counting, clock)
    with watching(model, counted), counting:
        forward()
    timed = []
    for _ in range(repeats):
        watcher = _Watcher(None, clock)
        with watching(model, watcher):
            forward()
        timed.append(watcher.calls)
    return [
        _layer(path, call, median(calls[path].seconds for calls in timed if path in calls))
        for path, call in counted.calls.items()
        if call.leaf or call.flops or call.bytes
    ]


def layer_table(
    subject: Subject, batch: Batch, *, ceilings: Ceilings | None = None, clock: Clock | None = None, repeats: int = 5
) -> LayerTable:
    """Work per layer and of a whole step on a placed `batch`. Trains the subject by `repeats` + 2 updates.

    `step_flops`, `step_bytes` and `compute_seconds` are of forward, loss, backward and optimizer together;
    bytes are what the operators move one by one. `share_of_ceiling` is the roofline's time over the measured one;
    data that stay in a cache can bring it above 1, because the bandwidth is that of memory.
    """
    clock = clock or thread_clock()
    with turning(subject):
        train_on(subject, batch)  # warm up: kernels are chosen, optimizer state is made
        found = layers(subject.model, lambda: forward_loss(subject, batch), clock=clock, repeats=repeats)
        with Counting() as step:
            train_on(subject, batch)
        seconds = median(_timed(lambda: train_on(subject, batch), subject.device, clock) for _ in range(repeats))
    dtype = max(step.by_dtype, key=lambda name: step.by_dtype[name], default="float32") or "float32"
    return LayerTable(
        layers=tuple(under(layer, ceilings, dtype) for layer in found),
        forward_flops=sum(layer.flops for layer in found),
        step_flops=step.flops,
        step_bytes=step.bytes,
        dtype=dtype,
        ridge=peak(ceilings, dtype) / ceilings.bandwidth if ceilings is not None else 0.0,
        compute_seconds=seconds,
    )


def peak(ceilings: Ceilings, dtype: str) -> float:
    """The best matrix rate for a dtype; that of float32 when this dtype was not measured."""
    return ceilings.matmul.get(dtype) or ceilings.matmul["float32"]


def under(layer: Layer, ceilings: Ceilings | None, dtype: str) -> Layer:
    """The layer with its share of what the roofline allows: the time that limits it over the time it takes."""
    if ceilings is None or not layer.seconds:
        return layer
    least = max(layer.flops / peak(ceilings, dtype), layer.bytes / ceilings.bandwidth)
    return Layer(
        module=layer.module,
        kind=layer.kind,
        flops=layer.flops,
        bytes=layer.bytes,
        seconds=layer.seconds,
        intensity=layer.intensity,
        share_of_ceiling=least / layer.seconds,
        where=layer.where,
    )


def _layer(path: str, call: _Call, seconds: float) -> Layer:
    moved_bytes = call.edges if call.leaf else call.bytes
    return Layer(
        module=path or "(model)",
        kind=call.kind,
        flops=call.flops,
        bytes=moved_bytes,
        seconds=seconds,
        intensity=call.flops / moved_bytes if moved_bytes else 0.0,
        where=Place(module=path or "(model)"),
    )


def _timed(work: Callable[[], object], device: torch.device, clock: Clock) -> float:
    before = clock()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return between(before, clock()).own


def _nbytes(items: list[Tensor]) -> int:
    return sum(_distinct(items).values())


def _product(shape: Any) -> int:
    total = 1
    for size in shape:
        total *= int(size)
    return total
