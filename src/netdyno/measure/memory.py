"""Counts where the memory of one training step goes, to the byte."""

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.measure import host
from netdyno.measure.profiling import profiler
from netdyno.measure.step import forward_loss, train_on, turning
from netdyno.records.evidence import MemoryAccount
from netdyno.targets.subject import Batch, Subject, tensors


class Allocation(NamedTuple):
    """One event of the allocator: `size` bytes taken at `address`, or given back when negative."""

    address: int
    size: int


class Saved(NamedTuple):
    """Bytes by address of some storages."""

    storages: dict[int, int]

    @property
    def bytes(self) -> int:
        """All of them together."""
        return sum(self.storages.values())


def memory_account(subject: Subject, batch: Batch) -> MemoryAccount:
    """The account of one steady training step on a placed `batch`. Trains the subject by three updates.

    All parts are counted from tensors, each storage once. `peak` is the most that was held at one moment, and
    `workspace` what it holds beyond the other parts. Parts that are never held together (gradients and activations
    in a model of few layers) may add up to more than the peak; then `workspace` is 0. `available` is what this
    process could have had in all: what is free now and what the subject holds already.
    """
    with turning(subject):
        for _ in range(2):  # the first makes the optimizer's state, the second shows that it has stopped growing
            train_on(subject, batch)
        parts = {
            "parameters": size_of(subject.model.parameters()),
            "buffers": size_of(subject.model.buffers()),
            "optimizer_state": size_of(state_tensors(subject.optimizer)),
            "batch": size_of(tensors(batch)),
        }
        persistent = sum(parts.values()) + size_of(gradients(subject.model))
        free = _free(subject.device)
        with _gradients_of_a_step(subject) as last:
            growth, saved = _measured_step(subject, batch)
    parts |= {"gradients": last.bytes, "activations": saved.bytes}
    peak = persistent + growth
    return MemoryAccount(
        **parts,
        workspace=max(0, peak - sum(parts.values())),
        peak=peak,
        capacity=_capacity(subject.device),
        available=free + persistent,
    )


def size_of(items: Iterable[Tensor]) -> int:
    """Bytes of the storages behind some tensors, each storage once."""
    return sum(storages(items).values())


def storages(items: Iterable[Tensor]) -> dict[int, int]:
    """Bytes by address of the storages behind some tensors; sparse tensors count their values and indices."""
    found: dict[int, int] = {}
    for item in items:
        for dense in _dense(item):
            storage = dense.untyped_storage()
            if storage.nbytes():
                found[storage.data_ptr()] = storage.nbytes()
    return found


def gradients(model: nn.Module) -> list[Tensor]:
    """The gradients that a model holds now."""
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def state_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The tensors that an optimizer keeps from step to step."""
    leaves, _ = torch.utils._pytree.tree_flatten([dict(values) for values in optimizer.state.values()])
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


@contextlib.contextmanager
def saving(known: Iterable[Tensor]) -> Iterator[Saved]:
    """Counts the tensors that autograd keeps inside the block, except those of `known` storages."""
    ours = set(storages(known))
    found = Saved({})

    def pack(tensor: Tensor) -> Tensor:
        for address, size in storages([tensor]).items():
            if address not in ours:
                found.storages[address] = size
        # Detached, because a node that keeps its own output would otherwise hold itself alive.
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, _unpack):
        yield found


def activation_bytes(subject: Subject, batch: Batch) -> int:
    """Bytes that one forward pass and loss keep for the backward pass, beyond parameters and the batch."""
    with turning(subject), saving(_known(subject, batch)) as saved:
        forward_loss(subject, batch)
    return saved.bytes


def highest(events: Iterable[Allocation]) -> int:
    """The highest level that a stretch of allocator events reaches, in bytes above its beginning.

    >>> highest([Allocation(1, 100), Allocation(2, 50), Allocation(1, -100), Allocation(3, 20)])
    150
    """
    return max(itertools.accumulate((event.size for event in events), initial=0))


@contextlib.contextmanager
def allocating(device: torch.device) -> Iterator[list[Allocation]]:
    """The events of the allocator of `device` inside the block, in order, once the block has ended."""
    events: list[Allocation] = []
    kind = str(device.type)
    with profiler(profile_memory=True) as profile:
        yield events
    assert profile.profiler is not None
    assert profile.profiler.kineto_results is not None
    timed: list[tuple[int, int, int]] = []
    waiting = list(profile.profiler.kineto_results.experimental_event_tree())
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        tag, fields = node.typed[0], node.typed[1]
        if tag.name == "Allocation" and fields.device.type == kind:
            timed.append((node.start_time_ns, fields.ptr, fields.alloc_size))
    # Sorting is stable and children come after their parents, but events of one nanosecond may be in any order:
    # give back before taking, so that a block that is freed and taken again does not look like two.
    timed.sort(key=lambda event: (event[0], event[2] > 0))
    events += [Allocation(address, size) for _, address, size in timed]


def _measured_step(subject: Subject, batch: Batch) -> tuple[int, Saved]:
    if subject.device.type == "cuda":
        before = torch.cuda.memory_allocated(subject.device)
        torch.cuda.reset_peak_memory_stats(subject.device)
        with saving(_known(subject, batch)) as saved:
            train_on(subject, batch)
        torch.cuda.synchronize(subject.device)
        return torch.cuda.max_memory_allocated(subject.device) - before, saved
    with allocating(subject.device) as events, saving(_known(subject, batch)) as saved:
        train_on(subject, batch)
    return highest(events), saved


@contextlib.contextmanager
def _gradients_of_a_step(subject: Subject) -> Iterator[Saved]:
    """Notes the gradients at the moment the optimizer begins its step, before they are released."""
    found = Saved({})

    def note(*_: Any) -> None:
        found.storages.update(storages(gradients(subject.model)))

    handle = subject.optimizer.register_step_pre_hook(note)
    try:
        yield found
    finally:
        handle.remove()


def _known(subject: Subject, batch: Batch) -> list[Tensor]:
    return [*subject.model.parameters(), *subject.model.buffers(), *tensors(batch)]


def _unpack(tensor: Tensor) -> Tensor:
    return tensor


def _dense(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._values(), tensor._indices()]
    return []


def _capacity(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else host.memory_capacity()


def _free(device: torch.device) -> int:
    if device.type != "cuda":
        return host.memory_available()
    # What the allocator keeps for itself and nobody uses looks taken from outside.
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused
