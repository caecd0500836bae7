"""A quiet thread that looks, some fifty times a second, which line of the script is at work, and in which phase."""

import contextlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from .account import NAMES
from .frames import Line, two_levels

if TYPE_CHECKING:
    from .observe import Observer

# Distinct places that are told apart; the tick tells the most frequent ones.
MOST_PLACES = 2000
TOLD = 60


class Sampler:
    """Counts places of the training thread by line, framework function and phase."""

    def __init__(self, observer: "Observer", hz: float) -> None:
        self.observer = observer
        self.hz = hz
        self.counts: dict[tuple[Line, str | None, int], int] = {}
        self.samples = 0
        self._over: threading.Event | None = None

    def start(self) -> None:
        """Begin to look, once. Not a threading.Thread: scripts that list or join their threads do not meet it."""
        import _thread

        if self.hz > 0 and self._over is None:
            self._over = threading.Event()
            _thread.start_new_thread(self._run, (self._over,))

    def stop(self) -> None:
        """Look no more."""
        if self._over is not None:
            self._over.set()
            self._over = None

    def forked(self) -> None:
        """In a forked child the thread is gone."""
        self._over = None
        self.clear()

    def clear(self) -> None:
        """Forget what was seen."""
        self.counts, self.samples = {}, 0

    def _run(self, over: threading.Event) -> None:
        while not over.wait(1 / self.hz):
            with contextlib.suppress(Exception):
                self.sample()

    def sample(self) -> None:
        """Look once, if times are being counted."""
        observer = self.observer
        thread = observer.training_thread
        if not observer.account.on or thread is None:
            return
        frame = sys._current_frames().get(thread)
        if frame is None:
            return
        line, framework = two_levels(frame)
        del frame
        key = (line, framework, observer.account.current)
        counts = self.counts
        if key in counts or len(counts) < MOST_PLACES:
            counts[key] = counts.get(key, 0) + 1
        self.samples += 1

    def summary(self) -> list[dict[str, Any]]:
        """The most frequent places."""
        ranked = sorted(self.counts.items(), key=lambda item: -item[1])[:TOLD]
        return [
            {
                "file": line.file,
                "line": line.line,
                "function": line.function,
                "phase": NAMES[phase],
                "samples": samples,
                "framework": framework,
            }
            for (line, framework, phase), samples in ranked
        ]
