"""What one side keeps in memory, counted tensor by tensor over one training step."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from netdyno.records.trial import Memory
from netdyno.targets.subject import Batch, Subject, parameters_of, tensors


class Footprint:
    """Counts while `counting()`'s subject takes one step; `memory()` says the result.

    Activations are the storages that autograd keeps for the backward pass, each counted once and whole, without
    parameters, buffers and the batch itself. State is parameters, buffers, gradients (as they stand before the
    update) and the optimizer's own tensors.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._saved = _Storages()
        self._not_activations = _Storages()
        self._gradients = _Storages()
        self._peak: int | None = None

    @contextmanager
    def peaking(self) -> Iterator[None]:
        """Notes the allocator's peak over one step that is taken inside, on a CUDA device only.

        A step of its own, because counting keeps activations alive longer than training does. What other sides in
        this process hold is taken off.
        """
        device = self._subject.device
        others = torch.cuda.memory_allocated(device) - self._held()
        torch.cuda.reset_peak_memory_stats(device)
        yield
        torch.cuda.synchronize(device)
        self._peak = torch.cuda.max_memory_allocated(device) - others

    def counting(self) -> Subject:
        """The subject with everything that counts."""
        model = self._subject.model
        self._not_activations.add((*model.parameters(), *model.buffers()))
        return replace(
            self._subject,
            forward=self._forward,
            around_forward=(*self._subject.around_forward, self._keeping),
            around_turn=(*self._subject.around_turn, self._before_the_update),
        )

    def memory(self) -> Memory:
        """Bytes, after the step was taken."""
        return Memory(
            activations=self._saved.bytes(without=self._not_activations),
            state=self._state().bytes() + self._gradients.bytes(),
            peak=self._peak,
        )

    def _state(self) -> "_Storages":
        subject = self._subject
        state = _Storages()
        state.add((*subject.model.parameters(), *subject.model.buffers(), *parameters_of(subject.optimizer)))
        state.add(_all_tensors(subject.optimizer.state.values()))
        return state

    def _held(self) -> int:
        """Bytes that this side holds on its device between two steps."""
        state = self._state()
        state.add(each.grad for each in parameters_of(self._subject.optimizer) if each.grad is not None)
        return state.bytes(on=self._subject.device.type)

    def _forward(self, model: Any, batch: Batch) -> Any:
        self._not_activations.add(tensors(batch))
        return self._subject.forward(model, batch)

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        def pack(tensor: Tensor) -> Tensor:
            self._saved.add((tensor,))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            yield

    @contextmanager
    def _before_the_update(self) -> Iterator[None]:
        def count(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            parameters = parameters_of(optimizer)
            self._gradients.add(parameter.grad for parameter in parameters if parameter.grad is not None)
            self._saved.let_go()

        hook = self._subject.optimizer.register_step_pre_hook(count)
        try:
            yield
        finally:
            hook.remove()


class _Storages:
    """A set of storages. Holds on to them, so that memory used twice is not taken for one storage."""

    def __init__(self) -> None:
        self._bytes: dict[int, int] = {}
        self._held: list[torch.UntypedStorage] = []

    def add(self, given: Iterable[Tensor]) -> None:
        for tensor in given:
            for part in _dense(tensor):
                storage = part.untyped_storage()
                address = storage.data_ptr()
                if address and address not in self._bytes:
                    self._bytes[address] = storage.nbytes()
                    self._held.append(storage)

    def let_go(self) -> None:
        """Keep the count, free the memory."""
        self._held.clear()

    def bytes(self, *, without: "_Storages | None" = None, on: str | None = None) -> int:
        """The sum, without the storages of another set; of one kind of device only, while they are held."""
        if on is not None:
            return sum(storage.nbytes() for storage in self._held if storage.device.type == on)
        skipped = without._bytes if without is not None else {}
        return sum(size for address, size in self._bytes.items() if address not in skipped)


def _dense(tensor: Tensor) -> tuple[Tensor, ...]:
    """The tensors that a sparse one is made of."""
    if tensor.layout == torch.sparse_coo:
        return (tensor._indices(), tensor._values())
    if tensor.layout == torch.strided:
        return (tensor,)
    return ()


def _all_tensors(nested: Any) -> list[Tensor]:
    return tensors(list(nested))
