"""Counts where the memory of one training step goes, to the byte."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.measure import host
from netdyno.measure.step import train_on, turning
from netdyno.records.evidence import MemoryAccount
from netdyno.targets.subject import Batch, Subject, tensors


class Allocation(NamedTuple):
    """One event of the allocator: `size` bytes taken at `address`, or given back when negative."""

    address: int
    size: int


class Peak(NamedTuple):
    """The highest point of a stretch of work: bytes above its beginning, and what was taken and still held then."""

    growth: int
    held: dict[int, int]  # address -> bytes


class Saved(NamedTuple):
    """What the forward pass kept for the backward pass: bytes by address of their storage."""

    storages: dict[int, int]

    @property
    def bytes(self) -> int:
        return sum(self.storages.values())


def memory_account(subject: Subject, batch: Batch) -> MemoryAccount:
    """The account of one steady training step on a placed `batch`. Trains the subject by three updates.

    All parts are counted from tensors, each storage once. `peak` is the most that was held at one moment;
    gradients and activations are partly never held together, so the parts may add up to more. `workspace` is
    what was held at the peak and is none of the other parts. `available` is what this process could have had
    in all: what is free now and what the subject holds already.
    """
    with turning(subject):
        for _ in range(2):  # the first makes the optimizer's state, the second shows that it has stopped growing
            train_on(subject, batch)
        fixed = {
            "parameters": size_of(subject.model.parameters()),
            "buffers": size_of(subject.model.buffers()),
            "optimizer_state": size_of(state_tensors(subject.optimizer)),
            "batch": size_of(tensors(batch)),
        }
        held_gradients = size_of(gradients(subject.model))
        free = _free(subject.device)
        with _unreleased(subject) as last:
            peak, saved = _measured_step(subject, batch)
        gradient_storages = last.storages
    persistent = sum(fixed.values()) + held_gradients
    top = persistent + peak.growth
    named = saved.storages | gradient_storages
    if subject.device.type == "cuda":
        workspace = max(0, peak.growth - saved.bytes)
    else:
        workspace = sum(size for address, size in peak.held.items() if named.get(address) != size)
    return MemoryAccount(
        **fixed,
        gradients=sum(gradient_storages.values()),
        activations=saved.bytes,
        workspace=workspace,
        peak=top,
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
    from netdyno.measure.step import forward_loss

    with turning(subject), saving(_known(subject, batch)) as saved:
        forward_loss(subject, batch)
    return saved.bytes


def peak_of(events: Iterable[Allocation]) -> Peak:
    """The highest point of a stretch of allocator events.

    >>> peak_of([Allocation(1, 100), Allocation(2, 50), Allocation(1, -100), Allocation(3, 20)])
    Peak(growth=150, held={1: 100, 2: 50})
    """
    level, top = 0, Peak(0, {})
    held: dict[int, int] = {}
    for event in events:
        level += event.size
        if event.size > 0:
            held[event.address] = event.size
        else:
            held.pop(event.address, None)
        if level > top.growth:
            top = Peak(level, dict(held))
    return top


@contextlib.contextmanager
def allocating(device: torch.device) -> Iterator[list[Allocation]]:
    """The events of the allocator of `device` inside the block, in order, once the block has ended."""
    events: list[Allocation] = []
    kind = str(device.type)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
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


def _measured_step(subject: Subject, batch: Batch) -> tuple[Peak, Saved]:
    if subject.device.type == "cuda":
        before = torch.cuda.memory_allocated(subject.device)
        torch.cuda.reset_peak_memory_stats(subject.device)
        with saving(_known(subject, batch)) as saved:
            train_on(subject, batch)
        torch.cuda.synchronize(subject.device)
        return Peak(torch.cuda.max_memory_allocated(subject.device) - before, {}), saved
    with allocating(subject.device) as events, saving(_known(subject, batch)) as saved:
        train_on(subject, batch)
    return peak_of(events), saved


@contextlib.contextmanager
def _unreleased(subject: Subject) -> Iterator[Saved]:
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
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else host.memory_available()
