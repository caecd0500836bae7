"""An event loop whose time passes only while everybody waits: hours of queueing in seconds, and the same every time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from netdyno.runtimes._base import Arrays
from netdyno.serving.batcher import Done

T = TypeVar("T")


class _NoWaiting(selectors.BaseSelector):
    """Nothing ever arrives from outside; who waits for it moves the time on."""

    def __init__(self) -> None:
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits for what will never come")
        self.now += max(0.0, timeout)
        return []

    def get_map(self) -> Any:
        return {}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a time of its own, from zero on."""

    def __init__(self) -> None:
        self._mine = _NoWaiting()
        super().__init__(self._mine)

    def time(self) -> float:
        """Seconds that were waited so far."""
        return self._mine.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine in a fresh virtual loop."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class Simulated:
    """A worker that computes nothing and takes as long as `seconds(rows)` says; it answers each row with itself."""

    beside = True

    def __init__(self, seconds: Callable[[int], float]) -> None:
        self.seconds = seconds
        self.batches: list[int] = []

    def start(self, requests: Sequence[Arrays], done: Done) -> None:
        """Begin."""
        rows = tuple(np.concatenate(columns) for columns in zip(*requests, strict=True))
        self.batches.append(len(rows[0]))
        asyncio.get_running_loop().call_later(self.seconds(len(rows[0])), done, rows, None)

    def close(self) -> None:
        """Nothing to end."""
