"""Puts requests together while the model is busy, and never waits for company when it is not.

One worker runs the model; the event loop decides. A request that meets an idle worker and an empty queue is run at once. What
arrives meanwhile waits and goes together; only then may a queue delay be waited out, for batches that are worth it.
"""

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from netdyno.runtimes._base import Arrays, Call
from netdyno.serving.batches import Costs, take

T = TypeVar("T")
PACE_OVER, MOST_PACE = 10, 10.0
Done = Callable[[Arrays | None, Exception | None], None]


class Refused(Exception):
    """A request that is not taken: the queue is full, or it could not be in time. `retry_s` is when it is worth another try."""

    def __init__(self, says: str, retry_s: float) -> None:
        super().__init__(says)
        self.retry_s = retry_s


class Gone(Exception):
    """A request whose client went away before it was run."""


class Late(Exception):
    """A request whose deadline passed before it was answered."""


class Closed(Exception):
    """The service is ending and takes no more requests."""


class Worker(Protocol):
    """Runs one batch at a time, elsewhere, and calls `done` in the event loop."""

    @property
    def beside(self) -> bool:
        """Whether it works while the event loop does: then the next batch is started before answers are sent, else after."""

    def start(self, requests: Sequence[Arrays], done: Done) -> None:
        """Begin; the rows of all requests together, in their order."""

    def close(self) -> None:
        """End, when the batch that is running is done."""


class Answer(NamedTuple):
    """The outputs for one request, how long it waited in the queue, and how many rows went together."""

    arrays: Arrays
    queued_s: float
    rows: int


class Waiting:
    """A request in the queue. `at_once` says that it met an idle worker; `alone` that it is not to be put together again."""

    __slots__ = ("alone", "arrays", "arrived", "at_once", "future", "gone", "queued", "rows", "started", "timer")

    def __init__(self, arrays: Arrays, arrived: float, future: "asyncio.Future[Answer]", *, at_once: bool) -> None:
        self.arrays = arrays
        self.rows = len(arrays[0])
        self.arrived = self.started = arrived
        self.future = future
        self.at_once = at_once
        self.alone = False
        self.queued = False
        self.gone: Callable[[], bool] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Batcher:
    """Answers requests by a worker that takes one batch at a time.

    `most_waiting` bounds the rows in the queue. `delay_s` is how long a request that had to wait may wait on for company.
    `ran` is told of every batch: rows, seconds, and whether it failed.
    """

    def __init__(
        self,
        worker: Worker,
        costs: Costs,
        *,
        most_waiting: int = 256,
        delay_s: float = 0.0,
        ran: Callable[[int, float, bool], None] = lambda *_: None,
    ) -> None:
        self.worker = worker
        self.costs = costs
        self.most_waiting = most_waiting
        self.delay_s = delay_s
        self.ran = ran
        self.waiting_rows = 0
        self.pace = 1.0  # how many times slower than in the warm-up batches are of late
        self.began: float | None = None  # when the running batch was started; None while the worker is idle
        self._running: list[Waiting] = []
        self._waiting: deque[Waiting] = deque()
        self._window: asyncio.TimerHandle | None = None
        self._looking = False
        self._closed = False
        self._empty: asyncio.Future[None] | None = None

    async def answer(
        self, arrays: Arrays, *, deadline: float | None = None, gone: Callable[[], bool] | None = None
    ) -> Answer:
        """The model's answer; `deadline` is a time of the event loop, `gone` says whether anybody still waits for it.

        Raises Refused, Late, Gone, Closed, or what the model raised.
        """
        loop = asyncio.get_running_loop()
        now, rows = loop.time(), len(arrays[0])
        self._admit(rows, now, deadline)
        alone = self.began is None and not self._waiting
        one = Waiting(arrays, now, loop.create_future(), at_once=alone)
        one.gone = gone
        self._waiting.append(one)
        self._count(one)
        if deadline is not None:
            one.timer = loop.call_at(deadline, self._too_late, one)
        if self.began is None:
            self._look_soon(loop)
        return await one.future

    def _admit(self, rows: int, now: float, deadline: float | None) -> None:
        if self._closed:
            raise Closed("the service is ending")
        # A queue is so much time, not so many rows: where the model has become slower than it was, fewer may wait.
        most = max(self.costs.largest, int(self.most_waiting / self.pace)) if self.pace > 1 else self.most_waiting
        if self._waiting and self.waiting_rows + rows > most:
            raise Refused(f"{self.waiting_rows} rows wait already, and the queue holds {most}", self.ahead_s)
        if deadline is None:
            return
        if deadline <= now:
            raise Late("the deadline had passed when the request arrived")
        # With an empty queue nobody is refused, so that costs which were measured in a bad moment cannot shut the door for good.
        if self._waiting and now + self.ahead_s + self.pace * self.costs.of(rows) > deadline:
            raise Refused("it could not be answered before its deadline behind those that wait", self.ahead_s)

    @property
    def ahead_s(self) -> float:
        """Seconds until the queue as it is could be worked off in full batches, at the pace of late."""
        return self.waiting_rows * self.costs.per_row * self.pace

    @property
    def in_flight(self) -> int:
        """Requests that wait or are being answered."""
        return len(self._waiting) + len(self._running)

    async def drain(self, seconds: float) -> bool:
        """Take nothing more and answer what is there; False when that took longer than `seconds`."""
        self._closed = True
        if not self.in_flight:
            return True
        self._empty = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait_for(self._empty, seconds)
        except TimeoutError:
            return False
        return True

    def _look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        # At the end of this turn of the loop: requests that were read in the same turn go together.
        if not self._looking:
            self._looking = True
            loop.call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        if self.began is not None:
            return
        loop = asyncio.get_running_loop()
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self._forget_the_gone()
        while self._waiting and self._waiting[0].future.done():  # given up, or too late
            self._discount(self._waiting.popleft())
        if not self._waiting:
            self._tell_if_empty()
            return
        until = self._wait_until()
        if until > loop.time():
            self._window = loop.call_at(until, self._look)
            return
        self._start(self._batch(), loop)

    def _pace(self, rows: int, seconds: float) -> None:
        """A running mean over some ten batches; one that stood still counts as ten times slower, not as a thousand."""
        cost = self.costs.of(rows)
        if cost > 0:
            self.pace += (min(seconds / cost, MOST_PACE) - self.pace) / PACE_OVER

    def _forget_the_gone(self) -> None:
        for one in islice(self._waiting, 2 * self.costs.largest):
            if one.gone is not None and not one.at_once and not one.future.done() and one.gone():
                one.future.set_exception(Gone("the client went away"))
                self._discount(one)

    def _wait_until(self) -> float:
        """When the next batch goes at the latest; no deadline is missed for company."""
        first = self._waiting[0]
        if self.delay_s <= 0 or first.at_once or first.alone or self.waiting_rows >= self.costs.largest or self._closed:
            return 0.0
        cost = self.costs.of(self.costs.largest)
        ends = (one.timer.when() - cost for one in islice(self._waiting, self.costs.largest) if one.timer is not None)
        return min((first.arrived + self.delay_s, *ends))

    def _batch(self) -> list[Waiting]:
        there: list[Waiting] = []
        for one in islice(self._waiting, self.costs.largest):
            if one.alone and there:
                break
            there.append(one)
            if one.alone:
                break
        live = [one for one in there if not one.future.done()]
        batch = live[: take([one.rows for one in live], self.costs)]
        last = batch[-1]
        while True:
            one = self._waiting.popleft()
            self._discount(one)
            if one is last:
                return batch

    def _start(self, batch: list[Waiting], loop: asyncio.AbstractEventLoop) -> None:
        self.began = now = loop.time()
        self._running = batch
        for one in batch:
            one.started = now
        self.worker.start([one.arrays for one in batch], self._finished)

    def _finished(self, arrays: Arrays | None, error: Exception | None) -> None:
        """The worker is done: the next batch goes first, then this one is answered."""
        loop = asyncio.get_running_loop()
        batch, began = self._running, self.began
        assert began is not None
        self._running, self.began = [], None
        if error is not None and len(batch) > 1:
            # One of them spoiled it for the others, perhaps: each alone, so that the others are answered.
            for one in reversed(batch):
                one.alone = True
                self._waiting.appendleft(one)
                self._count(one)
            batch, error = [], None
        now, whole = loop.time(), sum(one.rows for one in batch)
        if self.worker.beside:
            self._look()
        if batch:
            self._pace(whole, now - began)
            self.ran(whole, now - began, arrays is None)
        at = 0
        for one in batch:
            end = at + one.rows
            if not one.future.done():
                if arrays is None:
                    one.future.set_exception(error or RuntimeError("the worker gave nothing"))
                else:
                    mine = arrays if len(batch) == 1 else tuple(array[at:end] for array in arrays)
                    one.future.set_result(Answer(mine, one.started - one.arrived, whole))
            if one.timer is not None:
                one.timer.cancel()
            at = end
        if not self.worker.beside:
            self._look_soon(loop)  # behind those who are woken above and send their answers
        self._tell_if_empty()

    def _count(self, one: Waiting) -> None:
        one.queued = True
        self.waiting_rows += one.rows

    def _discount(self, one: Waiting) -> None:
        if one.queued:
            one.queued = False
            self.waiting_rows -= one.rows

    def _too_late(self, one: Waiting) -> None:
        self._discount(one)
        if not one.future.done():
            one.future.set_exception(Late("its deadline passed before it was answered"))
            if self.began is None:
                self._look_soon(asyncio.get_running_loop())

    def _tell_if_empty(self) -> None:
        if self._empty is not None and not self._empty.done() and not self.in_flight:
            self._empty.set_result(None)


class Thread:
    """A worker that is one thread: runtimes let go of Python's lock while they compute.

    The model is loaded and warmed up in this thread too: some runtimes keep what is warm by thread.
    """

    beside = True

    def __init__(self, call: Call | None = None) -> None:
        self.call = call
        self._orders: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="netdyno-model", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[], T]) -> T:
        """The result of anything else that is to be done in this thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def told(value: T | None, error: Exception | None) -> None:
            if not future.done():
                future.set_exception(error) if error is not None else future.set_result(value)  # type: ignore[arg-type]

        self._orders.put(lambda: _tell(loop, told, *_tried(work)))
        return await future

    def start(self, requests: Sequence[Arrays], done: Done) -> None:
        """Begin."""
        loop = asyncio.get_running_loop()
        self._orders.put(lambda: _tell(loop, done, *_tried(lambda: self._answers(requests))))

    def close(self) -> None:
        """End, when the batch that is running is done."""
        self._orders.put(None)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            order()

    def _answers(self, requests: Sequence[Arrays]) -> Arrays:
        assert self.call is not None
        return _answers(self.call, requests)


class Inline:
    """A worker that is the event loop itself: with a single core, or a model quicker than a hand-over, a thread only costs.

    What arrives meanwhile waits in the sockets, is read at once afterwards, and goes together.
    """

    beside = False

    def __init__(self, call: Call) -> None:
        self.call = call

    def start(self, requests: Sequence[Arrays], done: Done) -> None:
        """Do it."""
        asyncio.get_running_loop().call_soon(done, *_tried(lambda: _answers(self.call, requests)))

    def close(self) -> None:
        """Nothing to end."""


def _answers(call: Call, requests: Sequence[Arrays]) -> Arrays:
    answers = call(together(requests))
    _whole(answers, sum(len(arrays[0]) for arrays in requests))
    return answers


def _tried(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error


def _tell(loop: asyncio.AbstractEventLoop, done: Callable[..., None], *what: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
        loop.call_soon_threadsafe(done, *what)


def together(requests: Sequence[Arrays]) -> Arrays:
    """The rows of several requests as one."""
    if len(requests) == 1:
        return requests[0]
    return tuple(np.concatenate(columns) for columns in zip(*requests, strict=True))


def _whole(answers: Arrays, rows: int) -> None:
    """A model that gives another number of rows than it was given would answer one client with another's rows."""
    found = {len(array) if array.ndim else 0 for array in answers}
    if found != {rows}:
        raise ValueError(f"the model answered {sorted(found)} rows to {rows}")
