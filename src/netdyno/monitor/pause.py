"""Waits for a person, or stops: what a broken wire may do to a run."""

import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

RESUME = "resume"
# Who paused a run wants to be asked, and who sleeps wants to find it well in the morning, not at the same place: an hour.
PATIENCE_S = 3600.0
LOOK_S = 0.2


class TripStop(SystemExit):
    """A tripwire stopped the run. Uncaught, it says why and ends the process with status 1, without a traceback."""


class Pause:
    """Holds the training thread until a file `resume` appears in the journal's folder, Enter is pressed, or an hour is over.

    The file may hold the word `skip`: then this update's gradients are thrown away before the step is taken.
    """

    def __init__(
        self,
        folder: Path,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = folder / RESUME
        self.patience_s = patience_s
        self.clock = clock
        self.sleep = sleep
        self.on = False

    def wait(self, says: str) -> str:
        """How it went on: `file`, `skip`, `key` or `time`."""
        began = self.clock()
        self.on = True
        self._say(says)
        try:
            while self.clock() - began < self.patience_s:
                if self.path.exists():
                    return self._taken()
                if _key():
                    return "key"
                self.sleep(LOOK_S)
            return "time"
        finally:
            self.on = False

    def _taken(self) -> str:
        word = self.path.read_text().strip()
        self.path.unlink()  # the next pause waits for the next one
        return "skip" if word == "skip" else "file"

    def _say(self, says: str) -> None:
        key = ", or press Enter" if _terminal() else ""
        sys.stderr.write(
            f"netdyno: paused: {says}\n  to go on: touch {self.path}{key}"
            f" (by itself in {self.patience_s / 60:.0f} minutes); `echo skip > …/{RESUME}` throws this update's gradients away\n"
        )
        sys.stderr.flush()


def _terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # closed
        return False


def _key() -> bool:
    if not _terminal() or sys.platform == "win32":
        return False
    if select.select([sys.stdin], [], [], 0)[0]:
        sys.stdin.readline()
        return True
    return False
