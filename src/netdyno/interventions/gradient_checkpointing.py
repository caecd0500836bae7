"""Forget what repeated blocks saved for backward, and compute it again when backward comes.

Helps:      models of many blocks that do not fit, or fit only in small batches. Offered under a memory goal alone.
Costs:      one more forward pass of the chosen blocks: about a third of a step for all of them.
Parity:     the same bits, dropout included: random state is put back for the second pass. Buffers that a block
            changes, such as the running statistics of batch norm, change once: the second pass works on copies.
Undo:       each block gets its own forward back.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from netdyno.interventions._base import Facts, Intervention, megabytes
from netdyno.measure.step import forward_loss
from netdyno.records.evidence import MemoryAccount, StepTimeline
from netdyno.records.trial import Form, Numerics, Prediction
from netdyno.targets.samples import first_batch, kept_randomness
from netdyno.targets.subject import Subject

LEAST_ACTIVATIONS = 0.1  # of the peak; where weights and optimizer state fill the memory, this cannot help


@dataclass(frozen=True, slots=True)
class GradientCheckpointing:
    share: float = 1.0  # of the bytes that blocks save: the largest blocks first, until so much is forgotten

    layers: ClassVar[tuple[str, ...]] = ("memory", "compute")
    numerics: ClassVar[Numerics] = "same-bits"
    form: ClassVar[Form] = "in-process"
    stage: ClassVar[int] = 11
    effort: ClassVar[float] = 10.0
    memory_only: ClassVar[bool] = True

    def refuses(self, subject: Subject) -> str | None:
        if not 0 < self.share <= 1:
            return f"a share of {self.share} is not between 0 and 1"
        if len(blocks(subject.model)) < 2:
            return "the model has no repeated blocks: no ModuleList or Sequential whose parts have parts themselves"
        return None

    def predicts(self, facts: Facts) -> Prediction | None:
        timeline: StepTimeline | None = facts.get(StepTimeline)
        account: MemoryAccount | None = facts.get(MemoryAccount)
        if timeline is None or account is None or account.activations < LEAST_ACTIVATIONS * account.peak:
            return None
        again = self.share * timeline.share("forward")
        return Prediction(
            low=-1.25 * again,
            high=-0.75 * again,
            why=f"costs a second forward pass, {again:.0%} of a step; forgets up to "
            f"{megabytes(self.share * account.activations)} of a peak of {megabytes(account.peak)}",
        )

    def settings(self, subject: Subject, facts: Facts) -> tuple[Intervention, ...]:
        return (replace(self, share=1.0), replace(self, share=0.33))

    @contextmanager
    def applied(self, subject: Subject) -> Iterator[Subject]:
        seen = saved(subject)
        with ExitStack() as stack:
            for block in largest(seen.bytes, self.share):
                inside = {id(module) for module in block.modules()}
                changing = [buffer for buffer in seen.changing if id(buffer.module) in inside]
                stack.enter_context(_checkpointed(block, changing))
            yield subject

    def code(self) -> str:
        which = "each block" if self.share == 1 else f"the blocks that save most, up to {self.share:.0%} of all bytes"
        return f"x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # in forward, for {which}"


def blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks: parts of a ModuleList or Sequential that have parts themselves, the innermost such."""
    found: dict[nn.Module, None] = {}
    for container in model.modules():
        if isinstance(container, nn.ModuleList | nn.Sequential):
            found |= {part: None for part in container if any(True for _ in part.children())}
    callable_ones = [part for part in found if not isinstance(part, nn.ModuleList | nn.ModuleDict)]
    return [part for part in callable_ones if not any(inner is not part and inner in found for inner in part.modules())]


def largest(saved: dict[nn.Module, int], share: float) -> list[nn.Module]:
    """The fewest blocks that together save `share` of all bytes, largest first and earlier before later."""
    wanted = share * sum(saved.values())
    chosen: list[nn.Module] = []
    for block in sorted(saved, key=lambda block: -saved[block]):
        if wanted <= 0 or not saved[block]:
            break
        chosen.append(block)
        wanted -= saved[block]
    return chosen


class Buffer(NamedTuple):
    """A buffer by its place."""

    module: nn.Module
    name: str


class Saved(NamedTuple):
    """What one forward pass told: bytes that each block saves for backward, and the buffers that it changes."""

    bytes: dict[nn.Module, int]
    changing: list[Buffer]


def saved(subject: Subject) -> Saved:
    """Looks at one forward pass of the subject; buffers and random state are put back afterwards."""
    counts = dict.fromkeys(blocks(subject.model), 0)
    weights = {parameter.untyped_storage().data_ptr() for parameter in subject.model.parameters()}
    counted: set[int] = set()
    inside: list[nn.Module] = []

    def pack(tensor: Tensor) -> Tensor:
        place = tensor.untyped_storage().data_ptr()
        if inside and place not in weights and place not in counted:
            counted.add(place)
            counts[inside[-1]] += tensor.untyped_storage().nbytes()
        return tensor.detach()  # a node that keeps its own output would otherwise hold itself alive

    with kept_randomness(), _kept_buffers(subject.model) as changed, ExitStack() as stack:
        for block in counts:
            stack.callback(block.register_forward_pre_hook(lambda module, _: inside.append(module)).remove)
            stack.callback(block.register_forward_hook(lambda *_: _forget(inside)).remove)
        batch = subject.fed(first_batch(subject.feed))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            forward_loss(subject, batch)
    return Saved(counts, changed)


def _forget(inside: list[nn.Module]) -> None:
    inside.pop()  # a hook's answer would replace the output, so it must be None


@contextmanager
def _kept_buffers(model: nn.Module) -> Iterator[list[Buffer]]:
    """Puts all buffers back; afterwards the list holds those that the inside changed."""
    kept = [
        (Buffer(module, name), buffer, buffer.clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    changed: list[Buffer] = []
    try:
        yield changed
    finally:
        with torch.no_grad():
            for place, buffer, before in kept:
                now = place.module._buffers[place.name]
                if now is not buffer or not torch.equal(buffer, before):
                    changed.append(place)
                    place.module._buffers[place.name] = buffer
                    buffer.copy_(before)


@contextmanager
def _checkpointed(block: nn.Module, changing: list[Buffer]) -> Iterator[None]:
    plain = block.forward
    own = block.__dict__.get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        return checkpoint(plain, *args, use_reentrant=False, context_fn=partial(_passes, changing), **kwargs)

    block.__dict__["forward"] = forward
    try:
        yield
    finally:
        del block.__dict__["forward"]
        if own is not None:
            block.__dict__["forward"] = own


def _passes(changing: list[Buffer]) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Around the first pass nothing; around the second, buffers as they stood before the first."""
    before = [(place, place.module._buffers[place.name]) for place in changing]
    copies = [(place, buffer.clone()) for place, buffer in before if buffer is not None]
    return nullcontext(), _standing_in(copies)


@contextmanager
def _standing_in(copies: list[tuple[Buffer, Tensor]]) -> Iterator[None]:
    kept = [(place, place.module._buffers[place.name]) for place, _ in copies]
    for place, copy in copies:
        place.module._buffers[place.name] = copy
    try:
        yield
    finally:
        for place, buffer in kept:
            place.module._buffers[place.name] = buffer


EXAMPLES = (GradientCheckpointing(), GradientCheckpointing(share=0.33))
