"""One update counted operator by operator: calls, own seconds, floating-point operations, bytes, and where memory is."""

import os
import sys
from collections.abc import Iterable, Iterator
from statistics import median
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import host
from .account import EVALUATION, LOG, SAVE
from .counting import WORK, counting, handing_on_ns, storages

if TYPE_CHECKING:
    from .observe import Observer

# Updates after warm-up: late enough that the period is known and the optimizer has its state, early enough for a short ride.
WHEN = 12
# An update that is unlike the others says nothing of them: so many are tried, some updates apart.
TRIES, APART = 3, 5
# Of an update that nobody has seen so often nobody can say that it is the usual one.
LEAST_SEEN = 3
# A period of more updates than this would be counted for too long.
LONGEST = 6
# These are measured as they are: an update has no like in them. A script's only evaluation may be in the one counted.
KEPT = (EVALUATION, SAVE, LOG)
TOLD = 80


class Census:
    """Waits for its update, counts it, and takes it out of the times: counting makes it slower, and changes nothing else."""

    def __init__(self, observer: "Observer") -> None:
        self.observer = observer
        self.why: str | None = None
        self.dropped = 0  # updates that were finished and whose times were taken out
        self.cost_ns = 0
        self.found: dict[str, Any] | None = None
        self.cores = host.Cores()
        self._mode: Any = None
        self._thread: int | None = None
        self._before: tuple[list[int], list[int], list[int]] | None = None
        self._lines: tuple[dict[Any, int], int] = ({}, 0)
        self._finished = self._wanted = 0
        self._extra = 0.0
        self._next = WHEN
        self._tries = 0

    def ride(self) -> None:
        """Listen for the ends of updates."""
        self.observer.boundary.append(self.at_boundary)

    def at_boundary(self) -> None:
        """An update is over: is the next one to be counted, or was this the last that was?"""
        seen = self.observer
        if not self.cores.started and seen.updates >= seen.config.warmup:
            self.cores.start()
        if self._before is not None:
            self._finished += 1
            if self._finished >= self._wanted:
                self._end()
        elif self._mode is not None:
            self._leave()
        elif self.found is not None or self._tries >= TRIES:
            self._rest()
        elif seen.updates >= seen.config.warmup + self._next:
            self._begin()

    def end(self) -> None:
        """Count no more, wherever the script is."""
        if self._before is not None:
            self.why = "the ride was over before the update that was counted"
            self._put_back()
        self._rest()
        self._leave()

    def forked(self) -> None:
        """In a forked child, which may be a loader's worker: nobody counts here."""
        self._before = None
        self._leave()

    def _rest(self) -> None:
        if self.at_boundary in self.observer.boundary:
            self.observer.boundary.remove(self.at_boundary)

    def _begin(self) -> None:
        self._tries += 1
        self._next += APART
        try:
            self.why = self._refusal()
            if self.why is None:
                self._enter()
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"
            self._leave()

    def _refusal(self) -> str | None:
        seen = self.observer
        if seen.off or not seen.account.on:
            return "its updates are watched in bursts, and none of them could be counted"
        cycle = seen.cycle
        if cycle is None and len([one for one in seen.facts.optimizers if one.steps]) > 1:
            return "its optimizers step in no period that was seen"
        if cycle is not None and cycle > LONGEST:
            return f"its period has {cycle} updates"
        return unsafe(seen.view.models, seen.view.optimizers)

    def _enter(self) -> None:
        account, sampler = self.observer.account, self.observer.sampler
        account.switch(account.current)
        # From here on nothing is the script's: to make ready, and to add up in the end, is no price of watching an update.
        before = ([*account.total], [*account.off], [*account.waiting])
        self._extra = handing_on_ns(self.observer.now)
        mode = counting(self.observer)
        mode.known = storages(_held(self.observer.view.models, self.observer.view.optimizers))
        self._lines = (sampler.counts.copy(), sampler.samples)
        self._finished, self._wanted = 0, self.observer.cycle or 1
        self._thread, self._mode = get_ident(), mode
        mode.__enter__()
        self._before = before

    def _leave(self) -> None:
        """Out of the mode, at once or as soon as one of the script's own that was entered later is gone."""
        mode = self._mode
        if mode is None:
            return
        mode.over = True
        if get_ident() != self._thread:
            return  # it is another thread's, and does nothing any more
        import torch.utils._python_dispatch as dispatching

        if dispatching._get_current_dispatch_mode() is mode:
            self._mode.__exit__(None, None, None)
            self._mode = None

    def _end(self) -> None:
        mode = self._mode
        self._leave()
        self.why = None if self._is_usual() else "no update that was counted was like the others"
        if self.why is None:
            self.found = self._sum(mode, self._finished)
            self.found["outside_s"] = max(0, self._worked() - mode.inside) / 1e9 / self._finished
        self._put_back()
        self._next = self.observer.updates - self.observer.config.warmup + APART

    def _is_usual(self) -> bool:
        steps = self.observer.steps
        if self._wanted > 1:
            return True  # a whole period: its updates need not be alike
        times = steps.kinds.get(steps.last, 0)
        return times >= LEAST_SEEN and times >= max(steps.kinds.values())

    def _worked(self) -> int:
        """Nanoseconds that work took in what was counted, without waiting for a core."""
        assert self._before is not None
        account, (total, _, waiting) = self.observer.account, self._before
        return sum(account.total[phase] - total[phase] - account.waiting[phase] + waiting[phase] for phase in WORK)

    def _put_back(self) -> None:
        """The times of what was counted are taken out, but for those that counting did not change."""
        account, seen = self.observer.account, self.observer
        if account.on and get_ident() == seen.training_thread:
            account.switch(account.current)
        assert self._before is not None
        now = ([*account.total], [*account.off], [*account.waiting])
        before, self._before = self._before, None
        spent = sum(now[0]) - sum(before[0])
        for old, new in zip(before, now, strict=True):
            for phase in KEPT:
                old[phase] = new[phase]
        account.total, account.off, account.waiting = before
        account.presume_nothing()
        seen.sampler.counts, seen.sampler.samples = self._lines
        for _ in range(min(self._finished, len(seen.update_ns))):
            seen.update_ns.pop()
        self.dropped += self._finished
        usual = int(median(seen.update_ns)) * self._finished if seen.update_ns else 0
        self.cost_ns += max(0, spent - usual)

    def _sum(self, mode: Any, updates: int) -> dict[str, Any]:
        ops = [(name, (calls, max(0.0, spent - calls * self._extra))) for name, (calls, spent) in mode.ops.items()]
        ops.sort(key=lambda item: -item[1][1])
        told = [(name, calls / updates, spent / 1e9 / updates) for name, (calls, spent) in ops[:TOLD]]
        rest = [entry for _, entry in ops[TOLD:]]
        if rest:
            told.append(("others", sum(one[0] for one in rest) / updates, sum(one[1] for one in rest) / 1e9 / updates))
        return {
            "ops": told,
            "dispatches": sum(calls for _, (calls, _) in ops) / updates,
            "operator_s": sum(spent for _, (_, spent) in ops) / 1e9 / updates,
            # Nobody knows the work of what is not PyTorch's own.
            "foreign_s": sum(spent for name, (_, spent) in ops if not name.startswith("aten::")) / 1e9 / updates,
            "flops": mode.flops / updates,
            "forward_flops": mode.forward_flops / updates,
            "bytes": mode.bytes / updates,
            "dtype": max(mode.by_dtype, key=mode.by_dtype.__getitem__, default=""),
            "uncounted": mode.uncounted,
            "memory": self._memory(mode),
        }

    def _memory(self, mode: Any) -> dict[str, int]:
        models, optimizers = self.observer.view.models, self.observer.view.optimizers
        peak, available = host.memory()
        return {
            "parameters": sum(storages(p for model in models for p in model.parameters()).values()),
            "buffers": sum(storages(b for model in models for b in model.buffers()).values()),
            "gradients": sum(storages(p.grad for p in _weights(models, optimizers)).values()),
            "optimizer_state": sum(storages(_states(optimizers)).values()),
            "activations": mode.activations,
            "peak": peak,
            "available": available,
            "capacity": host.capacity(),
        }

    def summary(self) -> dict[str, Any]:
        """As it stands in the tick's `facts`."""
        return {
            "why": self.why,
            "dropped": self.dropped,
            "cost_s": self.cost_ns / 1e9,
            "counted": self.found,
            "threads": self.cores.summary(),
        }


def unsafe(models: Iterable[Any], optimizers: Iterable[Any]) -> str | None:
    """Why nobody should listen at the dispatcher of this script, in words."""
    import torch
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    if int(os.environ.get("WORLD_SIZE") or 1) > 1:
        return "several processes train together"
    if _get_current_dispatch_mode() is not None:
        return "somebody else listens at the dispatcher"
    if torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode):
        return "it trains inside a transform of torch.func"
    if _compiles():
        return "something is compiled"
    for module in (module for model in models for module in model.modules()):
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            return "a model is compiled"
        if isinstance(module, torch.jit.ScriptModule):
            return "a model is scripted"
    return next(filter(None, map(_odd, _held(models, optimizers))), None)


def _compiles() -> bool:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and dynamo.counters["frames"].get("total"))


def _odd(tensor: Any) -> str | None:
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", None)):
        return f"a weight is a {type(tensor).__name__}"
    if tensor.layout is not torch.strided:
        return "a tensor of it is sparse"
    # An operator on a device ends long after its call: neither its time nor its thread is known here.
    return None if tensor.device.type == "cpu" else f"it trains on the device `{tensor.device.type}`"


def _held(models: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[Any]:
    """What lives from update to update."""
    weights = list(_weights(models, optimizers))
    yield from weights
    yield from (weight.grad for weight in weights if weight.grad is not None)
    yield from (buffer for model in models for buffer in model.buffers())
    yield from _states(optimizers)


def _weights(models: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[Any]:
    yield from (parameter for model in models for parameter in model.parameters())
    yield from (weight for optimizer in optimizers for group in optimizer.param_groups for weight in group["params"])


def _states(optimizers: Iterable[Any]) -> Iterator[Any]:
    import torch

    for optimizer in optimizers:
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                for one in value if isinstance(value, list | tuple) else (value,):
                    if isinstance(one, torch.Tensor):
                        yield one
