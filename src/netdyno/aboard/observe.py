"""Watches a script train: counts its updates, splits their time, and tells who asks at the end of each."""

import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from statistics import median
from threading import get_ident
from typing import Any

from . import asides, asleep, batches, between, forwards, made, steps, updates
from .account import BACKWARD, NETDYNO, OPTIMIZER, Account
from .census import Census
from .config import Config
from .facts import OFTEN, SELDOM, Facts
from .lines import Sampler
from .patches import Patches, hide
from .reach import WHEN
from .steps import Steps
from .view import View

# Backward passes without a step of a torch optimizer: accumulation rarely goes further, and where there is no
# optimizer object at all (SGD by hand, fastai) it need not be waited for longer.
BACKWARDS = 12
# With an optimizer in sight accumulation may be long; 256 micro-batches are the most that was ever met.
BACKWARDS_BEFORE_AN_OPTIMIZER = 256
# Below this an update costs so little that watching each would show: watch some in a row, and count the rest.
QUICK_NS = 2_000_000
BURST, PERIOD = 50, 500
# After the first updates models are described at each power of two, and as often as this.
DESCRIBED = 512
# Updates after warm-up that say how quick they are.
PACE = 30
# On a long watch it is known by then what reads values.
FADES = 1000
# What a watched update costs more than others, before it is known, and at least and at most where a busy machine blurs it.
FEE_NS, FEES_NS = 100_000.0, (20_000.0, 2_000_000.0)
KEPT_PACES = 64
# However cheap they seem, as a busy machine hides what they cost; unless updates are so slow that this were longer than ten seconds.
LEAST_APART, APART_NS = 950, 10_000_000_000
KEPT_TIMES = 400
# One loss per update; a ride of more than this is not about single losses.
KEPT_LOSSES = 20_000
KEPT_RECENT = 4096
# On a device a loss is read this many updates late, when it has long arrived.
LATE = 2


class Observer:
    """Rides along. Nothing of it raises into the script, except what `boundary` means to raise."""

    def __init__(self, config: Config) -> None:
        import torch

        self.config = config
        self.view = View()
        self.boundary: list[Callable[[], None]] = []
        self.updates = 0
        self.counted_by = "time"
        self.training_thread: int | None = None
        self.account = Account()
        self.account.stretches = between.Stretches()
        self.steps = Steps()
        self.events = self.steps.events
        self.troubles: list[tuple[str, str]] = []
        self.points: dict[str, dict[str, Any]] = {}
        self.is_grad_enabled = torch.is_grad_enabled
        # Asked first in every wrapper: a tracer knows the answer, and leaves the rest of the wrapper out of its graph.
        self.is_compiling = torch.compiler.is_compiling
        # The same for one tracer only, and without a further call within: for wrappers that are passed very often.
        self.is_traced = torch.compiler.is_dynamo_compiling
        self.now = time.perf_counter_ns
        self.ran = time.thread_time_ns
        self._item = self.item = torch._C.TensorBase.item
        self.sleep = asleep.Sleep()
        self.calm: Callable[[], asleep.Calm | None] | None = None  # who says that nothing is wrong, on a long watch
        # Hot switches. `off`: count only. `inside`: module calls are nobody's business now.
        self.watching = config.watch
        self.off = not config.watch
        self.inside = 0
        self.quick_ns = QUICK_NS  # updates that take less are watched in bursts
        self.deaf = False  # nobody listens to forwards of this update: it is counted, and no more
        self.fetching = self.making = self.stepping = False
        self.looking = True
        # What happened since the last update, or since the last backward pass.
        self.forwards = self.backwards = self.grads = self.batches = 0
        self.backwards_done = 0
        self.usual_forwards = sys.maxsize
        self.steps_begun = 0
        self.scaled = False
        self.unscaled_loss: tuple[Any, Any] | None = None
        self.fetched: Any = None
        self.counts_backwards = self.counts_forwards = self.counts_batches = False
        self.counted = 0  # updates whose events and times were watched, since warm-up
        self.facts = Facts(self)
        self.vitals: Any = None  # the watch over the numbers, where one was asked for
        self.watch_of: Callable[[Observer], Any] | None = None  # who makes it, if not the room of vitals
        self.fresh: list[tuple[int, float]] | None = None  # losses for a reader who takes them out, where there is one
        self.census = Census(self)
        self.sampler = Sampler(self, config.hz if config.watch else 0)
        self.entered: list[AbstractContextManager[Any]] = []
        self.bursts = self.resting = False
        self.bursts_share = 0.0  # a long watch: what bursts may cost of the time
        self.fee_ns = FEE_NS  # what a watched update costs more than one that is slept through
        self.paces: deque[float] = deque(maxlen=KEPT_PACES)  # what those take on a core
        self.burst_paces: deque[float] = deque(maxlen=KEPT_PACES // 4)  # and the others
        self.faded = False  # and what passed here most often, and is known by then, passes no more
        self.narrowed: tuple[type, ...] = ()  # classes whose calls are seen then; none: those of all modules
        self._bursts_begun = 0
        self._burst_began = self._burst_ran = self._rests_until = 0
        self.recent: deque[tuple[int, float]] = deque(maxlen=KEPT_RECENT)  # the last of them, for who reads them again
        self.update_ns: deque[int] = deque(maxlen=KEPT_TIMES)
        self.losses: list[float | None] = []
        self.first_loss: float | None = None
        self.last_loss: float | None = None
        self._loss: float | None = None
        self._late: deque[tuple[int, Any, Any]] = deque()
        self._ended = 0
        self._modules = 0
        self._loggers: set[str] = set()
        self._patches = Patches()
        self._handles: list[Any] = []
        self._made = 0
        self._stepper: Any = None
        self._depth = 0

    # who rides where

    def candidate(self) -> bool:
        """Whether this is the training thread, or might turn out to be."""
        thread = self.training_thread
        return get_ident() == thread if thread is not None else self._may_train()

    def _may_train(self) -> bool:
        data = sys.modules.get("torch.utils.data")
        if data is not None and data.get_worker_info() is not None:
            self.training_thread = -1  # a loader's worker: nobody's thread
            return False
        return True

    def _settle(self) -> bool:
        """This thread trains: from now on only it is watched."""
        if not self._may_train():
            return False
        self.wake()
        self.training_thread = get_ident()
        self.inside, self.fetching, self.making, self.backwards = 0, False, False, 0
        self.off = self.resting or not self.watching
        if not self.off:
            self.account.start()
            self.sampler.start()
        self._ended = self.now()
        return True

    def forked(self) -> None:
        """In a forked child: whoever trains here is somebody else."""
        self.wake()
        self.training_thread = None
        self.account.forget_thread()
        self.sampler.forked()
        self.guarded("census", self.census.forked)

    def guarded(self, where: str, call: Callable[..., Any], *args: Any) -> Any:
        """What `call` gives; None, and a note, when it fails."""
        try:
            return call(*args)
        except Exception as error:
            self.trouble(where, error)
            return None

    def trouble(self, where: str, error: BaseException) -> None:
        """Note a failure of our own."""
        if len(self.troubles) < KEPT_TIMES:
            self.troubles.append((where, f"{type(error).__name__}: {error}"))

    # patches

    def apply(self) -> None:
        """Replace what has to be replaced."""
        self._handles = updates.patch_counting(self._patches, self)
        if (
            self.watching
            or self.config.recipe
            or self.config.remedies
            or self.config.line is not None
            or self.config.nudge
        ):
            forwards.patch(self._patches, self)
            batches.patch(self._patches, self)
            updates.patch(self._patches, self)
            asides.patch(self._patches, self)
        if self.watching and self.config.census and self.config.line is None and not self.config.recipe:
            self.census.ride()
        if self.config.vitals and self.watching:
            self.guarded("vitals", self._look_at_numbers)

    def _look_at_numbers(self) -> None:
        from .vitals import _base, _losses

        self.vitals = self.watch_of(self) if self.watch_of is not None else _base.Watch(self, self.config.share)
        _losses.patch(self._patches, self, self.vitals)
        hide(__package__)  # these came after the others were hidden
        made.patch(self._patches, self, self.facts.made)

    @property
    def replacements(self) -> Patches:
        """Attributes of torch that are replaced for the ride: vitals and remedies add theirs."""
        return self._patches

    def remove(self) -> None:
        """Put everything back."""
        self.wake()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._patches.undo()
        self._loggers.clear()
        self.leave_forward()

    def close(self) -> None:
        """Remove every patch; what still holds one of our functions passes through it."""
        self.sampler.stop()
        self.facts.reach.end()
        self.guarded("census", self.census.end)
        self.remove()
        self.account.stop()
        self.training_thread = -1
        self.off, self.inside = True, 1

    @property
    def missing(self) -> dict[str, str]:
        """Patch points that this torch does not have."""
        return self._patches.missing

    def patches(self) -> dict[str, Any]:
        """The self-test: which points fired."""
        return {"points": self.points}

    # around a forward

    def enter_forward(self) -> None:
        """Enter what knobs want around forward and loss."""
        if self.entered:
            return
        for enter in self.view.around_forward:
            context = enter()
            context.__enter__()
            self.entered.append(context)

    def leave_forward(self) -> None:
        """Leave it, before backward and wherever else a forward is certainly over."""
        while self.entered:
            self.entered.pop().__exit__(None, None, None)

    def once(self, token: int) -> None:
        """Note an event unless the last one was the same."""
        if not self.events or self.events[-1] != token:
            self.events.append(token)

    # backward

    def begin_backward(self, tensors: Any = None) -> bool:
        """A backward pass from `tensors` begins; False if it is none of ours."""
        if get_ident() != self.training_thread and (self.training_thread is not None or not self._settle()):
            return False
        if self.backwards:  # a checkpoint that is run backwards within a backward pass
            return False
        if self.entered:
            self.leave_forward()
        self.backwards = 1
        self.events.append(steps.BACKWARD)
        self.account.push(BACKWARD)
        if not self.off and self.facts.doubtful:
            self.guarded("gradients", self.facts.before_backward, self._item)
        if self.vitals is not None:
            self.vitals.tell("backward", tensors)
        return True

    def end_backward(self, tensors: Any) -> None:
        """It is over; `tensors` is what it started from, None if it failed."""
        self.backwards = 0
        try:
            if tensors is not None:
                self.backwards_done += 1
                self.guarded("loss", self.read_loss, tensors)
                if not self.off:
                    self.guarded("backward", self.facts.backward_done, self.forwards)
                self.forwards = 0
                if self.vitals is not None:
                    self.vitals.tell("differentiated", tensors)
                if self.counts_backwards:
                    self.finish(-1)
                elif self.counted_by != "optimizer":
                    self._choose_unit()
        finally:
            self.account.leave(BACKWARD)

    def _choose_unit(self) -> None:
        patience = BACKWARDS_BEFORE_AN_OPTIMIZER if self._made else BACKWARDS
        if self.backwards_done >= patience:
            self._count_by("backward")
            self._loss = None  # each pass was an update, and not their sum one

    def _count_by(self, unit: str) -> None:
        if unit == self.counted_by:
            return
        if self.updates:  # what was counted was something else
            self.updates = self.counted = 0
            self.steps.forget()
            self.update_ns.clear()
            self.losses.clear()
            self.first_loss = None
        self.counted_by = unit
        self.counts_backwards = unit == "backward"
        self.counts_forwards = unit == "forward"
        self.counts_batches = unit == "batch"

    def read_loss(self, tensors: Any) -> None:
        """Keep the loss that a backward pass started from, or have it copied from its device."""
        root = tensors if not isinstance(tensors, list | tuple) else tensors[0] if len(tensors) == 1 else None
        scaled, self.unscaled_loss = self.unscaled_loss, None
        if scaled is not None and scaled[0] is root:
            root = scaled[1]
        if root is None or root.numel() != 1:
            return
        if root.is_cpu:
            # Ready: nothing waits.
            self._loss = (self._loss or 0.0) + self._item(root)
        elif root.is_cuda:
            self._copy_later(root.detach())

    def _copy_later(self, value: Any) -> None:
        import torch

        copy = torch.empty((), dtype=value.dtype, pin_memory=True)
        copy.copy_(value.reshape(()), non_blocking=True)
        event = torch.cuda.Event()
        event.record()
        self._late.append((self.updates, copy, event))

    # optimizers

    def made_optimizer(self, optimizer: Any) -> None:
        """An optimizer was constructed."""
        self._made += 1
        if self._made < 64:
            self.guarded("optimizer made", self.facts.optimizer, optimizer)

    def step_begins(self, optimizer: Any, *_: Any) -> None:
        """The outermost optimizer step on this thread begins; a closure may run within it."""
        sleep = self.sleep
        if sleep.on:
            loss = sleep.loss
            if (
                loss is not None
                and sleep.low <= loss <= sleep.high
                and optimizer is sleep.optimizer
                and (sleep.guard is None or sleep.guard())
            ):
                return
            if get_ident() != self.training_thread:
                return
            self.wake()
        if get_ident() != self.training_thread and (self.training_thread is not None or not self._settle()):
            return
        if self.stepping and self._stepper is not optimizer:
            return  # an optimizer that wraps another
        self._begins(optimizer)
        if self.looking and not self.off:
            self.guarded("optimizer", self._look_at, optimizer)
        if self.vitals is not None:
            self.vitals.tell("step", optimizer)

    def _begins(self, optimizer: Any) -> None:
        self._stepper = optimizer
        self.stepping = True
        self.steps_begun += 1
        self._depth = len(self.account.stack)
        self.account.push(OPTIMIZER)

    def _look_at(self, optimizer: Any) -> None:
        self.facts.before_step(self.facts.optimizer(optimizer))

    def step_ends(self, optimizer: Any, *_: Any) -> None:
        """It is over: an update is finished."""
        sleep = self.sleep
        if sleep.on:
            if optimizer is not sleep.optimizer:
                return  # another thread's: ours has woken everybody
            sleep.left -= 1
            loss = sleep.loss
            if sleep.left > 0 and loss is not None:
                self.updates += 1
                sleep.losses.append(loss)
                if (fresh := self.fresh) is not None:
                    fresh.append((self.updates, loss))
                sleep.loss, sleep.passes = None, 0
                if sleep.stepped is not None:
                    sleep.stepped()
                return
            self.wake()
            self._begins(optimizer)
        if get_ident() != self.training_thread or self._stepper is not optimizer:
            return
        self.stepping, self._stepper = False, None
        if self.entered:
            self.leave_forward()
        if self.counted_by != "optimizer":
            self._count_by("optimizer")
        entry = self.facts.optimizer(optimizer)
        if not entry.steps:
            self.view.optimizers.append(optimizer)
        entry.steps += 1
        self.account.unwind(self._depth + 1)
        if self.vitals is not None:
            self.vitals.tell("stepped", optimizer)
        try:
            self.events.append(steps.STEP + entry.index)
            self.finish(entry.index)
        finally:
            self.account.leave(OPTIMIZER)

    def skipped(self, optimizer: Any) -> None:
        """A scaler found infinities and stepped no optimizer."""
        self.facts.skipped(optimizer)
        self.events.append(steps.SKIP)
        self._loss = None  # no update comes of it, and the next one's loss is not this one's too

    # the end of an update

    def finish(self, optimizer: int) -> None:
        """An update is over. Everything from here is our own time, until the caller leaves its phase."""
        account = self.account
        account.switch(NETDYNO)
        began = account.seen if account.on else self.now()
        self.updates += 1
        try:
            self._keep_loss()
            if self.watching and not self.off:
                self.update_ns.append(began - self._ended)
                self.counted += 1
                self.guarded("steps", self._note, optimizer)
            else:
                self.events.clear()
            self.scaled = False
            self.backwards_done = 0
            if self.vitals is not None:
                self.vitals.boundary()
            if self.resting:
                self._rests()
            for call in self.boundary[:]:
                try:
                    call()
                except Exception as error:
                    self.trouble("boundary", error)
        finally:
            self._ended = self.now()

    def _note(self, optimizer: int) -> None:
        at = self.updates
        expected = max(1, len(self.facts.optimizers)) if optimizer >= 0 else 1
        self.steps.finish(optimizer, expected)
        self.looking = at <= OFTEN or at % SELDOM == 0
        if self.config.line is None:  # in a session an update may be part of a race
            between.look(self.account, self.looking and at > self.config.warmup)
        if at <= WHEN + 1 or self.facts.pending:
            self.facts.update_done()
        if self.bursts_share and at >= FADES and not self.faded:
            asides.fade(self._patches, self)
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            asides.patch_loggers(self._patches, self, self._loggers)
        # What models are changes seldom, and looking at it visits each of their modules.
        if at <= OFTEN or not at & (at - 1) or not at % DESCRIBED:
            self.facts.describe()
        if at == self.config.warmup:
            self._warm()
        if self.config.line is None and at >= self.config.warmup + PACE:
            self._pace(at)

    def _warm(self) -> None:
        """From here on statistics count."""
        self.counted = 0
        self.account.clear()
        self.update_ns.clear()
        self.facts.restart()
        self.sampler.clear()

    def _pace(self, at: int) -> None:
        """Quick updates are watched some in a row; in between they are counted."""
        if not self.bursts:
            self.bursts = at == self.config.warmup + PACE and median(self.update_ns) < self.quick_ns
        if not self.bursts:
            return
        if not self.bursts_share:
            if at % PERIOD >= BURST:
                self._rest(at - at % PERIOD + PERIOD)
        elif at - self._burst_began >= BURST:
            self._burst_ends()
            if at >= FADES:
                forwards.narrow(self._patches, self)
            self._rest(at + self.apart(at))

    def apart(self, at: int) -> int:
        """Updates from a burst that ends at update `at` to the next one: as many as it takes to pay for it, and, as long as the
        run is young, no more than there were.
        """
        if not self.paces or not self.burst_paces:
            return min(LEAST_APART, max(PERIOD - BURST, at))
        pace = max(1.0, median(self.paces))
        self.fee_ns = min(max(median(self.burst_paces) - pace, FEES_NS[0]), FEES_NS[1])
        wanted = BURST * self.fee_ns / (self.bursts_share * pace)
        return int(max(min(PERIOD - BURST, APART_NS / pace), min(at, max(wanted, min(LEAST_APART, APART_NS / pace)))))

    def _burst_begins(self) -> None:
        self._bursts_begun += 1
        if not self._bursts_begun & (self._bursts_begun - 1):
            forwards.widen(
                self._patches, self
            )  # who has come since is met then, seldom: a class is not replaced in for ever
        self._burst_began, self._burst_ran = self.updates, self.ran() - self._told_apart()

    def _burst_ends(self) -> None:
        made = self.updates - self._burst_began
        if made > 0 and self._burst_ran:
            self.burst_paces.append((self.ran() - self._told_apart() - self._burst_ran) / made)

    def _told_apart(self) -> int:
        """What looks and listening have taken so far keeps to budgets of its own."""
        return 0 if self.vitals is None else int(self.vitals.spent_ns + self.vitals.heard_ns)

    def _rest(self, until: int) -> None:
        self.off = self.resting = True
        self._rests_until = until
        self._hush()
        self.account.stop()

    def _hush(self) -> None:
        """While it rests, calls of modules pass by; where numbers are looked at, only those of training, until a look."""
        vitals, hooked = self.vitals, self.view.hooked
        self.inside = 0 if hooked or vitals is not None else 1
        self.deaf = not (
            hooked or self.counts_forwards or (vitals is not None and (vitals.listening or vitals.looking))
        )

    def _rests(self) -> None:
        """One more update of a rest is over."""
        if self.updates < self._rests_until:
            self._hush()
            if self.deaf and self.calm is not None:
                self.guarded("sleep", self._fall_asleep)
            return
        self.resting = self.off = self.deaf = False
        self.inside = 0
        self._burst_begins()
        self.account.start(OPTIMIZER)
        self.account.switch(NETDYNO)
        self.sampler.start()

    def _fall_asleep(self) -> None:
        """Until the next update that is decided on, if nothing is wrong."""
        at = self.updates
        left = min(asleep.STRETCH - 1 - at % asleep.STRETCH, self._rests_until - at)
        known = (
            self.counted_by == "optimizer" and not self._late and self.unscaled_loss is None and not self.view.hooked
        )
        if left < asleep.LEAST or at % asleep.STRETCH == 0 or not known or self.calm is None:
            return
        calm = self.calm()
        if calm is not None:
            self.sleep.fall(calm, left, self.ran())

    def wake(self) -> None:
        """From here on everything is seen in the usual way; what was slept through is written down."""
        sleep = self.sleep
        if not sleep.on:
            return
        self._loss, self.backwards_done = sleep.loss, sleep.passes
        slept = self.guarded("sleep", sleep.rise)
        if slept:
            self.paces.append((self.ran() - sleep.began) / len(slept))
            first = self.updates - len(slept) + 1
            self.losses += slept[: KEPT_LOSSES - len(self.losses)] if len(self.losses) < KEPT_LOSSES else ()
            self.recent.extend(enumerate(slept, first))
            self.last_loss = slept[-1]
            entry = self.facts.optimizer(sleep.optimizer)
            entry.steps += len(slept)
            self.steps_begun += len(slept)

    def _keep_loss(self) -> None:
        loss = self._loss
        if len(self.losses) < KEPT_LOSSES:
            self.losses.append(loss)
        if loss is not None:
            if self.first_loss is None:
                self.first_loss = loss
            self.last_loss = loss
            self._loss = None
            if self.fresh is not None:
                self.fresh.append((self.updates, loss))
                self.recent.append((self.updates, loss))
        while self._late and self._late[0][0] <= self.updates - LATE and self._late[0][2].query():
            at, copy, _ = self._late.popleft()
            loss = self._item(copy)
            self._told(at, loss)
            if self.vitals is not None:
                self.vitals.told_late(at, loss)

    @property
    def awaits(self) -> bool:
        """Whether the loss of the update that is under way is still on its way from a device."""
        return bool(self._late) and self._late[-1][0] == self.updates

    def _told(self, at: int, loss: float) -> None:
        if self.first_loss is None:
            self.first_loss = loss
        self.last_loss = loss
        if self.fresh is not None:
            self.fresh.append((at + 1, loss))
            self.recent.append((at + 1, loss))
        if at < len(self.losses):
            self.losses[at] = loss + (self.losses[at] or 0.0)  # micro-batches of one update add up

    # what is told

    @property
    def cycle(self) -> int | None:
        """Updates in one period of the script's events."""
        return self.steps.cycle

    @property
    def event(self) -> str:
        """The event string of the update that ended last."""
        return steps.in_words(self.steps.last)

    def reading(self) -> dict[str, Any]:
        """Where the clocks and phases stand now; call it on the training thread, at a boundary."""
        account = self.account
        if account.on:
            account.switch(account.current)
        wall = account.wall
        return {
            "wall": wall,
            "running": wall - sum(account.off),
            "waiting": sum(account.waiting),
            "phases": account.phases(),
            "updates": self.updates,
        }

    def summary(self) -> dict[str, Any]:
        """The tick: everything so far."""
        account = self.account
        phases = account.phases()
        told: dict[str, Any] = {
            "updates": self.updates,
            "iterations": self.updates // (self.cycle or 1),
            "counted_by": self.counted_by,
            "cycle": self.cycle,
            "events": self.steps.words(),
            "optimizers": [entry.summary() for entry in list(self.facts.optimizers) if entry.steps or entry.skipped],
            "phases": {name: [part / 1e9 for part in parts] for name, parts in phases.items()},
            "wall_s": sum(sum(parts) for parts in phases.values()) / 1e9,
            "own_s": sum(phases.get("netdyno", (0,))) / 1e9,
            "update_s": [spent / 1e9 for spent in list(self.update_ns)],
            "watched": self.counted,
            "burst": {"watched": BURST, "of": PERIOD} if self.bursts else None,
            "lines": self.sampler.summary(),
            "samples": self.sampler.samples,
            "facts": self.guarded("facts", self.facts.summary),
            "vitals": None if self.vitals is None else self.guarded("vitals", self.vitals.summary),
            "first_loss": self.first_loss,
            "last_loss": self.last_loss,
            "checksum": self.facts.checksum,
            "threads": _threads(),
            "peak_rss": _peak(),
            "training_thread": self.training_thread,
            "troubles": [{"where": where, "says": says} for where, says in self.troubles],
        }
        if self.config.losses:
            told["losses"] = list(self.losses)
        return told


def _peak() -> int:
    """The most memory that was ever resident, in bytes."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _threads() -> int:
    import torch

    return int(torch.get_num_threads())


def install(config: Config) -> Observer:
    """Patch torch, whose module body has run, and see that each patch works."""
    from . import selftest

    hide(__package__)
    observer = Observer(config)
    if config.watch:
        trial = Observer(config._replace(line=None, nudge=0, recipe=(), hz=0))
        observer.points = observer.guarded("self-test", selftest.points, trial) or {}
    observer.apply()
    return observer
