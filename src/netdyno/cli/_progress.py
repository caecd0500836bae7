"""Progress on stderr: a bar, lines or JSON, and a time left that is measured or not shown."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO

from netdyno.cli._options import ProgressForm
from netdyno.progress import Event, Listener, silent

Clock = Callable[[], float]
# Two readings a second apart say too little about the pace of work that takes minutes.
LONG_ENOUGH_S = 1.0


class Left(NamedTuple):
    """Seconds until the end. `at_most` when they come from a budget, not from the pace so far."""

    seconds: float
    at_most: bool


class Pace:
    """Estimates the time left: from a budget when there is one, else from the pace of the work itself."""

    def __init__(self, *, budget_s: float | None, clock: Clock = time.monotonic) -> None:
        self.budget_s = budget_s
        self.clock = clock
        self.began = clock()
        self._doing = ""
        self._first = (0.0, 0.0)  # when the present work was first heard of, and how far it was

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.began

    def left(self, event: Event) -> Left | None:
        """The time left as of this event, or None as long as nothing honest can be said."""
        if self.budget_s is not None:
            return Left(self.budget_s - self.elapsed, at_most=True)
        now = self.clock()
        if event.doing != self._doing:
            self._doing, self._first = event.doing, (now, event.done)
            return None
        spent, done = now - self._first[0], event.done - self._first[1]
        if event.total is None or done <= 0 or spent < LONG_ENOUGH_S:
            return None
        return Left(max(0.0, event.total - event.done) * spent / done, at_most=False)


def said(left: Left | None) -> str:
    """The time left in words.

    >>> said(Left(75.0, at_most=True)), said(Left(-12.0, at_most=True)), said(None)
    ('at most 1:15 left', '0:12 over budget', '')
    """
    if left is None:
        return ""
    if left.seconds < 0:
        return f"{clock_time(-left.seconds)} over budget"
    return f"at most {clock_time(left.seconds)} left" if left.at_most else f"about {clock_time(left.seconds)} left"


def clock_time(seconds: float) -> str:
    """Minutes and seconds.

    >>> clock_time(75.4)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextlib.contextmanager
def listening(form: ProgressForm, *, budget_s: float | None = None, stream: TextIO | None = None) -> Iterator[Listener]:
    """A listener that shows events in the wanted form while the inside runs."""
    stream = stream or sys.stderr
    pace = Pace(budget_s=budget_s)
    form = chosen(form, stream)
    if form is ProgressForm.BAR:
        with _bar(pace, stream) as listener:
            yield listener
    elif form is ProgressForm.LINES:
        yield lines(pace, stream)
    elif form is ProgressForm.JSON:
        yield json_lines(pace, stream)
    else:
        yield silent


def loading(listener: Listener) -> None:
    """Say that PyTorch is being loaded: it takes seconds."""
    listener(Event("loading PyTorch"))


def chosen(form: ProgressForm, stream: TextIO) -> ProgressForm:
    """A bar on a terminal, lines where output is collected: in a pipe, a file, or on a build server."""
    if form is not ProgressForm.AUTO:
        return form
    return ProgressForm.LINES if os.environ.get("CI") or not stream.isatty() else ProgressForm.BAR


def lines(pace: Pace, stream: TextIO) -> Listener:
    """One line whenever something new begins."""
    last = ""

    def tell(event: Event) -> None:
        nonlocal last
        left = said(pace.left(event))
        if event.doing != last:
            last = event.doing
            print(f"[{clock_time(pace.elapsed)}] {event.doing}{f' ({left})' if left else ''}", file=stream, flush=True)

    return tell


def json_lines(pace: Pace, stream: TextIO) -> Listener:
    """Every event as one JSON object."""

    def tell(event: Event) -> None:
        left = pace.left(event)
        told = {
            "doing": event.doing,
            "done": event.done,
            "total": event.total,
            "elapsed_s": round(pace.elapsed, 3),
            "left_s": None if left is None else round(left.seconds, 3),
            "at_most": None if left is None else left.at_most,
        }
        print(json.dumps(told), file=stream, flush=True)

    return tell


@contextlib.contextmanager
def _bar(pace: Pace, stream: TextIO) -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.fields[left]}"))
    # A bar that redraws itself from a thread would take time from the step that is being measured:
    # it is drawn when an event comes, and events come between timed parts.
    with Progress(*columns, console=Console(file=stream), auto_refresh=False, transient=True) as progress:
        task = progress.add_task("starting", total=pace.budget_s, left="")

        def tell(event: Event) -> None:
            left = said(pace.left(event))
            progress.update(task, description=event.doing, left=left, **_place(event, pace))
            progress.refresh()

        yield tell


def _place(event: Event, pace: Pace) -> dict[str, Any]:
    if pace.budget_s is not None:
        return {"completed": min(pace.elapsed, pace.budget_s), "total": pace.budget_s}
    return {"completed": event.done, "total": event.total}
