"""Listens at the dispatcher: what every operator of an update takes, computes, moves and leaves behind."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .account import BACKWARD, DATA, EVALUATION, FORWARD, LOG, LOSS, NETDYNO, OPTIMIZER, SAVE

if TYPE_CHECKING:
    from .observe import Observer

# The phases that are told as an update's work, and those of them that lie before the backward pass.
WORK = frozenset((FORWARD, LOSS, BACKWARD, OPTIMIZER))
AHEAD = frozenset((FORWARD, LOSS))
# What is alive of these when the backward pass begins was not left behind by a forward pass.
UNTRACKED = frozenset((BACKWARD, OPTIMIZER, DATA, EVALUATION, SAVE, LOG, NETDYNO))
# Who lost a core lost it for longer than this; asking about every call would cost more than most calls.
LONG_NS = 200_000
# Calls enough for a quarter of them to be undisturbed: less than a millisecond.
CALLS = 100


def handing_on_ns(now: Callable[[], int]) -> float:
    """Nanoseconds that a call takes longer when it is handed on from Python: of two ways to call the smallest operator,
    the faster runs of each. The plain call has a little Python in it too, so this is rather too little."""
    import torch

    one = torch.zeros(1)
    plain, handed = one.neg_, torch.ops.aten.neg_.default
    times: tuple[list[int], list[int]] = ([], [])
    for _ in range(CALLS):
        began = now()
        plain()
        between = now()
        handed(one)
        times[1].append(now() - between)
        times[0].append(between - began)
    first, second = (sorted(one)[CALLS // 4] for one in times)
    return max(0.0, float(second - first))


def counting(observer: "Observer") -> Any:
    """A dispatch mode that counts what the update does. It hands on every call as it came."""
    from torch import strided
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode

    formulas, gathers, empty = _formulas(), _gathers(), _empty()
    now, account = observer.now, observer.account
    clocks = account.clocks
    waiting = clocks.waiting if clocks is not None else int

    class Counting(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.over = False
            self.ops: dict[str, list[int]] = {}
            self.flops = self.forward_flops = self.bytes = 0.0
            self.by_dtype: dict[str, float] = {}
            self.known: dict[int, int] = {}
            self.alive: dict[int, tuple[Any, int]] = {}
            self.activations = 0
            self.backward = 0
            self.uncounted = 0
            self.last = now()
            self.waited = waiting()
            self.inside = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # To keep the compiler out of the call below, torch would import it: a second, and a script without it.
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            settings = kwargs or {}
            if self.over:
                return func(*args, **settings)
            began = now()
            if began - self.last > LONG_NS:
                self.waited = waiting()
            out = func(*args, **settings)
            wall = now() - began
            spent = wall if wall < LONG_NS else self.at_work(wall)
            try:
                self.note(func, args, settings, out, spent)
            except Exception:
                self.uncounted += 1
            self.last = now()
            if account.current in WORK:
                self.inside += self.last - began - wall + spent
            return out

        def at_work(self, spent: int) -> int:
            """Without what other programs took of a long call."""
            before, self.waited = self.waited, waiting()
            return max(0, spent - (self.waited - before))

        def note(self, func: Any, args: Any, settings: Any, out: Any, spent: int) -> None:
            phase = account.current
            if observer.backwards != self.backward:
                self.backward = observer.backwards
                if self.backward:
                    self.look()
            written, read = _storages(out), _storages((args, settings))
            if phase not in UNTRACKED:
                self.track(written, read)
            if phase not in WORK:
                return
            entry = self.ops.setdefault(func._schema.name, [0, 0])
            entry[0] += 1
            entry[1] += spent
            packet = func._overloadpacket
            if packet not in empty:  # those only set memory aside
                self.bytes += moved(func, (args, settings), out, rows=packet in gathers)
            formula = formulas.get(packet)
            # A product with a sparse matrix does a small part of what its shapes say.
            if formula is not None and all(t.layout is strided for t in tensors(args)):
                flops = float(formula(*args, **settings, out_val=out))
                self.flops += flops
                self.forward_flops += flops if phase in AHEAD else 0.0
                dtype = next((str(t.dtype) for t in tensors(args) if t.is_floating_point()), "")
                dtype = dtype.removeprefix("torch.")
                self.by_dtype[dtype] = self.by_dtype.get(dtype, 0.0) + flops

        def track(self, written: dict[int, Any], read: dict[int, Any]) -> None:
            for key, storage in written.items():
                if key not in read and key not in self.known:
                    self.alive[key] = (StorageWeakRef(storage), storage.nbytes())

        def look(self) -> None:
            """A backward pass begins: what the forward pass made and somebody still holds is what it left for it."""
            self.alive = {key: one for key, one in self.alive.items() if not one[0].expired()}
            self.activations = max(self.activations, sum(size for _, size in self.alive.values()))

    return Counting()


def storages(tensors: Iterable[Any]) -> dict[int, int]:
    """Bytes by identity of the storages behind some tensors, each once."""
    found: dict[int, int] = {}
    for tensor in tensors:
        if tensor is not None:
            storage = tensor.untyped_storage()
            found[storage._cdata] = storage.nbytes()
    return found


def tensors(value: Any) -> Iterator[Any]:
    """The tensors in the arguments of an operator: lists are the deepest that they nest."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from tensors(inner)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from tensors(inner)


def _storages(value: Any) -> dict[int, Any]:
    import torch

    found = {}
    for tensor in tensors(value):
        if tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            found[storage._cdata] = storage
    return found


def moved(func: Any, given: Any, out: Any, *, rows: bool) -> int:
    """Bytes that one operator reads and writes: nothing for a view; of a table only the `rows` that it is asked for."""
    written, read = _distinct(out), _distinct(given)
    if rows:
        _, *indices = tensors(given)
        return 2 * sum(written.values()) + sum(_distinct(indices).values())
    if not func._schema.is_mutable and {key for key, _ in written} & {key for key, _ in read}:
        return 0
    return sum(read.values()) + sum(written.values())


def _distinct(value: Any) -> dict[tuple[int, int], int]:
    import torch

    found = {}
    for tensor in tensors(value):
        if tensor.layout is torch.strided and tensor.numel():
            storage = tensor.untyped_storage()
            # An expanded tensor has more elements than memory behind it.
            found[storage._cdata, int(tensor.storage_offset())] = min(tensor.nbytes, storage.nbytes())
    return found


# What each operator does


def _formulas() -> dict[Any, Callable[..., int]]:
    """Operations by operator: torch's own formulas, and those it lacks for what runs on a CPU."""
    from torch.utils.flop_counter import flop_registry

    missing = {
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
        "mkldnn_rnn_layer": _recurrent,
        "mkldnn_rnn_layer_backward": _recurrent_backward,
    }
    return {**flop_registry, **{packet: missing[name] for name, packet in _aten(missing)}}


def _gathers() -> frozenset[Any]:
    """These read only the rows they are asked for, not the table that they are given."""
    return frozenset(packet for _, packet in _aten(("embedding", "index", "index_select", "gather")))


def _empty() -> frozenset[Any]:
    """These only set memory aside."""
    names = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
    return frozenset(packet for _, packet in _aten(names))


def _aten(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Those of these operators that this torch has."""
    import torch

    return ((name, getattr(torch.ops.aten, name)) for name in names if hasattr(torch.ops.aten, name))


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return 2 * _heads(query) * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    return 2 * _heads(query) * query.shape[-2] * key.shape[-2] * (3 * query.shape[-1] + 2 * value.shape[-1])


def _recurrent(given: Any, input_weight: Any, hidden_weight: Any, *_: Any, **__: Any) -> int:
    return int(2 * given.shape[0] * given.shape[1] * (input_weight.numel() + hidden_weight.numel()))


def _recurrent_backward(*args: Any, **settings: Any) -> int:
    return 2 * _recurrent(*args, **settings)


def _heads(query: Any) -> int:
    return int(query.numel()) // (query.shape[-2] * query.shape[-1]) if query.numel() else 0
