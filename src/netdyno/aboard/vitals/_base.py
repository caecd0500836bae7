"""The room's own machinery: what a vital is, when it may look, and what its looks cost."""

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..account import NETDYNO
from ..frames import Line, user_line

if TYPE_CHECKING:
    from ..observe import Observer

# The first updates are looked at whatever it costs: what is wrong from the start is wrong there.
FIRST = 4
# So are the first ones of another optimizer, as of a second phase, unless they come and go in numbers.
NEWCOMERS = 6
# Every call is listened to in so many updates; later in blocks of updates, for so much of the time. Within the first passes over
# the data it may be more: what is seen of them whole says the most.
WHOLE, EARLY, BLOCK = 200, 2000, 50
# In between one update in so many is heard all the same: how well the model does must not be known from the beginning only.
SPARSE = 64
LISTENS, LISTENS_EARLY = 0.01, 0.03
# Seconds that looks may take at the end, when the script has nothing more to do.
AT_THE_END_S = 6.0
# What a look at an evaluation may cost before any time has passed to take a share of.
GRANT_NS = 20_000_000

# Listeners take microseconds. When they take so long, the thread was put aside meanwhile.
LONG_NS = 500_000
# What is called in every update is timed in one of so many: of an odd number, or what is done in each sixteenth was always meant.
TIMED = 17

# While a quick loop rests between bursts, whether the next update is looked at is asked in one of so many.
BREATH = 4

# Called on looked-at updates only, but for those that begin with `every_`: they are called for every update that is listened to, and take a
# microsecond. What begins with `always_` is called in every update, whatever it costs: tripwires.
HOOKS = (
    "calling", "every_calling", "called", "every_called", "loss", "every_loss", "backward", "every_backward", "differentiated", "every_differentiated",
    "clip", "every_clip", "step", "every_step", "stepped", "every_stepped", "batch", "every_batch", "update", "every_update", "over",
    "always_backward", "always_differentiated", "always_clip", "always_step", "always_stepped", "always_batch", "always_update",
)  # fmt: skip


class Call(NamedTuple):
    """A top-level call of a module that has weights, after it. `grad`: a graph was recorded, so it may be training.

    `frame` is the caller's; `line` finds the user's line from it.
    """

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    grad: bool
    frame: FrameType

    @property
    def line(self) -> Line:
        """Where the user called it."""
        return user_line(self.frame)


class LossCall(NamedTuple):
    """A call of a loss of torch.nn.functional, after it; modules such as CrossEntropyLoss come here too."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    grad: bool
    frame: FrameType

    @property
    def input(self) -> Any:
        """What the loss judges."""
        return self.args[0] if self.args else self.kwargs.get("input")

    @property
    def target(self) -> Any:
        """What it is judged by."""
        return self.args[1] if len(self.args) > 1 else self.kwargs.get("target")

    @property
    def line(self) -> Line:
        """Where the user called it."""
        return user_line(self.frame)


class Vital:
    """One look at the numbers. Subclasses define the hooks they need, and `summary`; they raise freely, it is caught.

    All hooks run on the training thread, under `torch.no_grad()` and outside of the script's time:

        calling(module, args, kwargs)   before a top-level call of a module with weights, in training
        called(call)            after a top-level call of a module with weights: training (call.grad) or evaluation
        loss(call)              after a functional loss
        backward(loss)          before a backward pass that starts at `loss` (a tensor or several)
        differentiated(loss)    after it
        clip(name, parameters, limit, result)   after clip_grad_norm_ or clip_grad_value_
        step(optimizer), stepped(optimizer)      before and after an optimizer's step
        batch(loader, batch)    after a batch came out of a DataLoader (`loader` is a facts.KnownLoader)
        update(number)          an update is over; the next one may not be looked at
        over()                  the script is over: last looks at live objects, in a few seconds
    """

    kind: ClassVar[str]  # the evidence's class

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch

    def summary(self) -> dict[str, Any] | None:
        """The evidence as JSON, fields as its class has them; None when nothing was seen."""
        raise NotImplementedError


class Watch:
    """Hands what happens to the vitals, on a budget: a share of the run's time."""

    def __init__(
        self,
        observer: "Observer",
        share: float,
        *,
        room: Iterable[tuple[str, Callable[["Watch"], Vital]]] | None = None,
        listens: tuple[float, float] = (LISTENS, LISTENS_EARLY),
        on_core: bool = False,
    ) -> None:
        self.observer = observer
        self.on_core = on_core  # shares are of the time in which the thread had a core, or waited for none
        self.share = share
        self.listens, self.listens_early = listens
        self.looking = True  # the update that is under way is looked at
        self.looks = 0
        self.known, self.until = 0, FIRST  # optimizers, and the update up to which all are looked at
        self.spent_ns = 0
        self.listening = True  # what happens in this update is told to `every_` hooks
        self.block = True  # and in the whole block that it lies in
        self.whole = True  # none was left out so far
        self.heard_ns = 0
        self.waited = 0  # for a core, as it was last known
        self.away_ns = 0  # such waits on board, as far as they are known
        self.rested = False  # between two bursts
        self.wired_ns = 0  # what tripwires take; they keep to an allowance of their own
        self.costs: dict[str, int] = {}
        self.began = 0
        self.ended = False
        self.busy = False
        self.vitals: list[Vital] = []
        self._is_grad_enabled, self._set_grad = _switches()
        self.hooks: dict[str, list[tuple[str, Callable[..., None]]]] = {name: [] for name in HOOKS}
        self.every: dict[str, list[tuple[str, Callable[..., None]]]] = {
            hook.removeprefix("every_"): [] for hook in HOOKS if hook.startswith("every_")
        }
        self.always: dict[str, list[tuple[str, Callable[..., None]]]] = {hook: [] for hook in self.every}
        for name, kind in kinds(observer.trouble) if room is None else room:
            vital = observer.guarded(f"vital {name}", kind, self)
            if vital is not None:
                self._add(name, vital)

    def _add(self, name: str, vital: Vital) -> None:
        self.vitals.append(vital)
        self.costs[name] = 0
        for hook in HOOKS:
            method = getattr(vital, hook, None)
            if method is not None:
                self.hooks[hook].append((name, method))
                start, _, rest = hook.partition("_")
                if rest:
                    (self.every if start == "every" else self.always)[rest].append((name, method))

    @property
    def updates(self) -> int:
        """Updates that are over."""
        return self.observer.updates

    @property
    def models(self) -> list[Any]:
        """Modules that were called in training, at top level."""
        return self.observer.view.models

    @property
    def optimizers(self) -> list[Any]:
        """Optimizers that have stepped."""
        return self.observer.view.optimizers

    def affords(self) -> bool:
        """Whether there is room for one more look."""
        return self.spent_ns <= self.share * self.elapsed() + GRANT_NS

    def elapsed(self) -> int:
        """Nanoseconds on board. On a busy machine those without a core are no time to take a share of."""
        return self.observer.now() - self.began - self.away_ns if self.began else 0

    def _notes_wait(self) -> int:
        """Nanoseconds of waiting for a core since the last time that this was asked."""
        waited = self._waited()
        since, self.waited = max(0, waited - self.waited), waited
        if self.on_core:
            self.away_ns += since
        return since

    def tell(self, hook: str, *what: Any) -> None:
        """Something happened in training: the vitals that listen for it have their look."""
        if self.busy or self.ended:
            return
        if self.always[hook]:
            self._wire(self.always[hook], what)
        if self.listening and self.every[hook]:
            self._hear(self.every[hook], what)
        if self.looking and self.hooks[hook]:
            self._call(self.hooks[hook], what)

    def fetched(self, loader: Any, batch: Any) -> None:
        """A batch came out of a loader."""
        if self.listening or loader.trains:
            self.tell("batch", loader, batch)
        elif not self.busy and not self.ended:
            self._hear(self.every["batch"], (loader, batch))

    def judged(self, call: LossCall) -> None:
        """A loss. Those of evaluations are few, and always heard."""
        if call.grad or self.listening:
            self.tell("loss", call)
        elif not self.busy and not self.ended:
            self._hear(self.every["loss"], (call,))

    def evaluated(self, call: Call) -> None:
        """An evaluation's call: there may be thousands of them between two updates, so each asks for room."""
        if self.busy or self.ended:
            return
        self._hear(self.every["called"], (call,))
        if self.affords():
            self._call(self.hooks["called"], (call,))

    def told_late(self, at: int, loss: float) -> None:
        """A loss that was on a device is known, some updates after its own."""
        for vital in self.vitals:
            late = getattr(vital, "told_late", None)
            if late is not None:
                self.observer.guarded("late loss", late, at, loss)

    def boundary(self) -> None:
        """An update is over: is the next one looked at, and listened to?"""
        if self.busy or self.ended:
            return
        at = self.updates
        if not self.began:
            self.began = self.observer.now()
            self.waited, self.away_ns = self._waited(), 0
        if self.always["update"]:
            self._wire(self.always["update"], (at,))
        if self.listening:
            self._hear(self.every["update"], (at,))
        if self.looking:
            self.looks += 1
            self._call(self.hooks["update"], (at,))
        if self.observer.deaf and at % BREATH:
            loss = self.observer.last_loss
            self.looking, self.listening = False, loss is not None and loss - loss != 0.0
            return
        elapsed = self.elapsed()
        known = len(self.observer.view.optimizers)
        if known != self.known and known <= NEWCOMERS:
            self.known, self.until = known, at + FIRST
        if at >= WHOLE and self._decides(at):
            self._notes_wait()
            self._attend(at, self.elapsed())
        self.listening = self.block or at % SPARSE == 0
        self.looking = at < self.until or (self.block and self.spent_ns <= self.share * elapsed)
        loss = self.observer.last_loss
        if loss is not None and loss - loss != 0.0:  # not finite: whoever looks for the reason must hear it now
            self.listening = True
        if self.observer.off:  # it rests between bursts, and would keep calls of modules from us
            self.observer.inside = 0 if self.listening else self.observer.inside

    def _decides(self, at: int) -> bool:
        """Whether it is time to decide on the next block of updates. A long watch listens, and looks, in its bursts."""
        observer = self.observer
        if not (observer.bursts and observer.bursts_share):
            return at % BLOCK == 0
        rested, self.rested = self.rested, observer.off
        if observer.off:
            self.block = self.whole = False
        return rested and not observer.off

    def _attend(self, at: int, elapsed: int) -> None:
        share = self.listens_early if at < EARLY else self.listens
        self.block = self.heard_ns <= share * elapsed
        self.whole = self.whole and self.block

    def over(self) -> None:
        """The script is over."""
        if self.ended:
            return
        began = self.observer.now()
        for name, method in self.hooks["over"]:
            if self.observer.now() - began > AT_THE_END_S * 1e9:
                self.observer.trouble(f"vital {name}", TimeoutError("no time was left for its last look"))
                continue
            self._call([(name, method)], ())
        self.ended = True

    def _wire(self, methods: list[tuple[str, Callable[..., None]]], what: tuple[Any, ...]) -> None:
        """The quickest way, taken in every update: time is taken of one in sixteen, and it is the hook's own business to
        record no graph."""
        observer = self.observer
        timed = not observer.updates % TIMED
        began = observer.now() if timed else 0
        account = observer.account
        on, before = account.on, account.current
        if on:
            account.switch(NETDYNO)
        off, inside, observer.off, observer.inside, self.busy = observer.off, observer.inside, True, 1, True
        try:
            for name, method in methods:
                try:
                    method(*what)
                except Exception as error:
                    observer.trouble(f"vital {name}", error)
        finally:
            self.busy = False
            observer.off, observer.inside = off, inside
            if on:
                account.switch(before)
            if timed:
                self.wired_ns += TIMED * min(observer.now() - began, LONG_NS)

    def _hear(self, methods: list[tuple[str, Callable[..., None]]], what: tuple[Any, ...]) -> None:
        """The quick way, taken several times in each update: time is taken of all listeners together."""
        observer, account = self.observer, self.observer.account
        now = observer.now
        began = now()
        on, before = account.on, account.current
        if on:
            account.switch(NETDYNO)
        off, inside, observer.off, observer.inside, self.busy = observer.off, observer.inside, True, 1, True
        grad = self._is_grad_enabled()
        if grad:
            self._set_grad(False)
        try:
            for name, method in methods:
                try:
                    method(*what)
                except Exception as error:
                    observer.trouble(f"vital {name}", error)
        finally:
            if grad:
                self._set_grad(True)
            self.busy = False
            observer.off, observer.inside = off, inside
            if on:
                account.switch(before)
            spent = now() - began
            if spent > LONG_NS:
                spent = max(0, spent - self._notes_wait())
            self.heard_ns += spent

    def _waited(self) -> int:
        """Nanoseconds that this thread has waited for a core; 0 where the system does not say."""
        clocks = self.observer.account.clocks
        return clocks.waiting() if clocks is not None else 0

    def _call(self, methods: list[tuple[str, Callable[..., None]]], what: tuple[Any, ...]) -> None:
        import torch

        observer, account = self.observer, self.observer.account
        before = account.current
        account.switch(NETDYNO)
        off, inside, observer.off, observer.inside, self.busy = observer.off, observer.inside, True, 1, True
        began = first = observer.now()
        self._notes_wait()
        try:
            with torch.no_grad():
                for name, method in methods:
                    observer.guarded(f"vital {name}", method, *what)
                    now = observer.now()
                    self.costs[name] += now - began
                    began = now
        finally:
            # What other programs took meanwhile is not the look's price: on a busy machine the budget would be gone at once.
            self.spent_ns += max(0, began - first - self._notes_wait())
            self.busy = False
            observer.off, observer.inside = off, inside
            account.switch(before)

    def summary(self) -> dict[str, Any]:
        """Evidence by its kind, and what each look cost in seconds."""
        told: dict[str, Any] = {}
        for name, vital in zip(self.costs, self.vitals, strict=True):
            found = self.observer.guarded(f"vital {name}", vital.summary)
            if found is not None:
                told[vital.kind] = {"vital": name, **found}
        return {
            "evidence": told,
            "looks": self.looks,
            "listening_s": self.heard_ns / 1e9,
            "costs_s": {name: spent / 1e9 for name, spent in self.costs.items() if spent},
        }


def _switches() -> tuple[Callable[[], bool], Callable[[bool], Any]]:
    """Autograd's own switch, a tenth of the price of `torch.no_grad()`."""
    import torch

    return torch.is_grad_enabled, torch._C._set_grad_enabled


def kinds(trouble: Callable[[str, BaseException], None] | None = None) -> Iterator[tuple[str, type[Vital]]]:
    """The vitals of this room, by the names of their files: each file declares one as `VITAL`.

    One that cannot be imported is told to `trouble`, and the others go on; without a listener it raises.
    """
    for file in sorted(os.listdir(os.path.dirname(__file__))):
        name = file.removesuffix(".py")
        if not file.endswith(".py") or name.startswith("_"):
            continue
        try:
            kind = importlib.import_module(f".{name}", __package__).VITAL
        except Exception as error:
            if trouble is None:
                raise
            trouble(f"vital {name}", error)
            continue
        yield name, kind


def caller(depth: int) -> FrameType:
    """The frame `depth` calls up."""
    return sys._getframe(depth + 1)
