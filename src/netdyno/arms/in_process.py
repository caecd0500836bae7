"""A side that lives in this process, beside others: the rule, for every change that can be switched between steps.

Two copies of one target step on the same batches in turns. What one of them does must not reach the other:

- each has its own random stream (PyTorch, NumPy, `random`, the device's), put in place before a turn and
  taken out after it, outside the timed part, so both sides draw the same dropout masks and augmentations;
- global switches are thrown for the length of a turn only (`Subject.around_turn`);
- loader workers, where the target has any, are frozen between turns, so that nothing is prefetched for free.
"""

import contextlib
import os
import random
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing import process as children_of_this_process
from types import FrameType
from typing import Any

import numpy as np
import torch

from netdyno.arms.footprint import Footprint
from netdyno.arms.last_words import ended, told
from netdyno.arms.processes import Guarded, freeze, signal_group, thaw
from netdyno.errors import ArmError
from netdyno.interventions._base import applied
from netdyno.measure.step import Stepper
from netdyno.measure.stopwatch import Clock, Stopwatch, stopwatch_for
from netdyno.records.measured import Turn
from netdyno.records.trial import Change, Memory
from netdyno.targets.feed import checksum
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload, seed_everything

# Steps taken, and batches hashed, before the first turn: the first may compile, the second build optimizer
# state and with it compile again; the third is normal.
FIRST_STEPS = 3


class InProcessArm:
    """One side in this process: a fresh copy of a workload under a recipe, built and warmed up when made.

    `limit_s` ends a call that takes longer, as soon as Python gets a word in; it works in the main thread only, since
    it needs a signal. What may hang inside C code belongs into a ResidentArm. `owns_group` is for an arm that has a
    process group of its own: it thaws the whole group when a turn begins.
    """

    def __init__(
        self,
        workload: Workload,
        recipe: Sequence[Change] = (),
        *,
        seed: int,
        clock: Clock | None = None,
        limit_s: float | None = None,
        owns_group: bool = False,
    ) -> None:
        self.recipe = tuple(recipe)
        self._limit_s = limit_s
        self._owns_group = owns_group
        self._undo = contextlib.ExitStack()
        self._closed = False
        self._checksum = ""
        self._first_s = self._quickest_s = 0.0
        self._stream = _Stream()
        with self._stream.in_place(), self._answering("being built"):
            subject = workload.fresh(seed)
            stopwatch = Stopwatch(clock) if clock is not None else stopwatch_for(subject.device)
            stopwatch.start("apply")
            subject = self._undo.enter_context(applied(self.recipe, subject))
            stopwatch.stop()
            self._apply_s = stopwatch.total().own
            # Caching or compiling may have drawn numbers that the other side did not draw.
            seed_everything(seed)
            self._stepper, self._batches = _stepper(subject, stopwatch, self._freezing)
            self._warm_up()

    @property
    def setup_s(self) -> float:
        """Seconds that applying the recipe and the first steps took beyond normal stepping."""
        return self._apply_s + max(0.0, self._first_s - FIRST_STEPS * self._quickest_s)

    def turn(self, steps: int) -> Turn:
        """Take `steps` training steps and say where the time went. Raises ArmError; then the arm is closed."""
        with self._working("stepping"):
            turn = self._stepper.take(steps)
        self._quickest_s = min(self._quickest_s, turn.per_step)
        return turn

    def checksum(self) -> str:
        """The hash of the first three batches, before placement."""
        return self._checksum

    def memory(self) -> Memory:
        """Saved activations and persistent state, counted exactly; `peak` only where the device keeps count.

        Takes one more training step, and another for the peak.
        """
        with self._working("counting its memory"):
            footprint = Footprint(self._stepper.subject)
            if self._stepper.subject.device.type == "cuda":
                with footprint.peaking():
                    self._stepper.take(1)
            self._stepper.subject, uncounted = footprint.counting(), self._stepper.subject
            try:
                self._stepper.take(1)
            finally:
                self._stepper.subject = uncounted
            return footprint.memory()

    def close(self) -> None:
        """Undo the changes, end loader workers, let go of the copy. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            with self._stream.in_place(), contextlib.ExitStack() as last:
                last.callback(self._let_go)
                last.callback(self._undo.close)
                if hasattr(self, "_stepper"):
                    self._thaw()
                    last.callback(self._stepper.close)
        except Exception as error:
            raise told(error, doing="undoing its changes") from error

    def __enter__(self) -> "InProcessArm":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _let_go(self) -> None:
        for name in ("_stepper", "_batches"):
            if hasattr(self, name):
                delattr(self, name)

    def _warm_up(self) -> None:
        """The first steps, one by one. Batches are hashed on the way, in time that is not counted."""
        spent = []
        for _ in range(FIRST_STEPS):
            turn = self._stepper.take(1)
            hashing = turn.phases.get("checksum")
            spent.append(turn.time.own - (hashing.own if hashing is not None else 0.0))
        self._checksum = checksum(self._batches.hashes)
        self._first_s = sum(spent)
        self._quickest_s = min(spent)

    @contextlib.contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        if self._closed:
            raise ArmError(f"the side was closed before {doing}")
        with self._stream.in_place(), self._answering(doing):
            yield

    @contextlib.contextmanager
    def _answering(self, doing: str) -> Iterator[None]:
        """Whatever is raised inside closes the arm; errors leave as ArmError, an interrupt as itself."""
        try:
            with _limited(self._limit_s):
                yield
        except (Exception, SystemExit) as error:
            failure = self.told(error, doing)
            with contextlib.suppress(Exception):
                self.close()
            raise failure from error
        except BaseException:
            with contextlib.suppress(Exception):
                self.close()
            raise

    def told(self, error: BaseException, doing: str) -> ArmError:
        """What the side died of, with the loader worker that it lost."""
        lost = self._batches.lost() if hasattr(self, "_batches") else None
        failure = told(error, doing=doing)
        if lost is None:
            return failure
        # What the loader makes of it depends on what it was doing: a broken connection, a missing file, a sentence.
        return ArmError(f"the side lost a loader worker, {lost}: {failure.says}", last_words=failure.last_words)

    @contextlib.contextmanager
    def _freezing(self) -> Iterator[None]:
        """The innermost switch of a turn: loader workers run exactly while the clock does."""
        self._thaw()
        self._batches.look()
        try:
            yield
        finally:
            for worker in self._batches.workers():
                freeze(worker)

    def _thaw(self) -> None:
        if self._owns_group:
            signal_group(os.getpgrp(), signal.SIGCONT)
        for worker in self._batches.workers():
            thaw(worker)


def _stepper(subject: Subject, stopwatch: Stopwatch, freezing: Any) -> tuple[Stepper, "_Batches"]:
    feed = subject.feed
    if feed.workers:
        feed = replace(feed, worker_init=Guarded(feed.worker_init))
    stepper = Stepper(replace(subject, feed=feed).with_turn(freezing), stopwatch)
    batches = _Batches(stepper.batches, stopwatch)
    stepper.batches = batches
    return stepper, batches


class _Batches(Iterator[Any]):
    """The batches of a feed: hashes the first few before anybody can change them, and knows the loader's workers.

    Workers are the child processes that appear while a batch is asked for; nothing else starts processes there.
    """

    def __init__(self, batches: Iterator[Any], stopwatch: Stopwatch) -> None:
        self._batches = batches
        self._stopwatch = stopwatch
        self._workers: set[Any] = set()
        self.hashes: list[str] = []
        self.look()

    def look(self) -> None:
        """Child processes that are there now are not this feed's, unless they are known as such."""
        self._seen = set(children_of_this_process._children)  # type: ignore[attr-defined]  # public lists reap, and cost

    def workers(self) -> list[int]:
        """The process ids of the loader workers that still run."""
        self._workers = {worker for worker in self._workers if worker.exitcode != 0}
        return [worker.pid for worker in self._workers if worker.exitcode is None]

    def lost(self) -> str | None:
        """How a loader worker died that should be there, or None. The loader itself ends them by SIGTERM at worst."""
        codes = [worker.exitcode for worker in self._workers if worker.exitcode not in (None, 0, -signal.SIGTERM)]
        return ended(codes[0]) if codes else None

    def __next__(self) -> Any:
        batch = next(self._batches)
        children = children_of_this_process._children  # type: ignore[attr-defined]
        if children != self._seen:
            self._workers |= children - self._seen
            self.look()
        if len(self.hashes) < FIRST_STEPS:
            with self._stopwatch.nested("checksum"):
                self.hashes.append(checksum([batch]))
        return batch

    def close(self) -> None:
        """Ends the loader workers."""
        self._batches.close()  # type: ignore[attr-defined]


class _Stream:
    """An own place in the streams of every random generator that user code draws from."""

    def __init__(self) -> None:
        self._reached: tuple[Any, ...] | None = None

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, draws go on where they stopped last time; outside nothing moves."""
        outside = _reached()
        if self._reached is not None:
            _go_on_from(self._reached)
        try:
            yield
        finally:
            self._reached = _reached()
            _go_on_from(outside)


def _reached() -> tuple[Any, ...]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), devices  # noqa: NPY002  user code draws there


def _go_on_from(reached: tuple[Any, ...]) -> None:
    python, numeric, tensors, devices = reached
    random.setstate(python)
    np.random.set_state(numeric)  # noqa: NPY002
    torch.set_rng_state(tensors)
    if devices:
        torch.cuda.set_rng_state_all(devices)


class _TooLong(BaseException):
    """Raised into a call that takes longer than its limit. Not an Exception, or user code would catch it."""


@contextlib.contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    # Rings again every second: an exception that is raised while Python runs a destructor is lost.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    except _TooLong as late:
        raise TimeoutError(f"it took longer than its limit of {seconds:g} s") from late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
