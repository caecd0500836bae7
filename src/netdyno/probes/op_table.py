"""Which operators an update runs, how often and how long, and how much of it lies outside of operators.

Measures:         forward, loss, backward and optimizer on a batch that is already there: calls and own seconds of each
                  operator from the profiler's events, and as Python's part what an update without the profiler
                  takes longer than its operators. Data loading is left out: it is Python's too, but another matter.
Costs:            two updates to warm up, five that are timed, three under the profiler, whose events are reduced here.
Leaves no trace:  the profiler is stopped, the subject trains on, and is put back afterwards.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from netdyno.measure.profiling import profiler
from netdyno.measure.step import one_batch, train_on, turning
from netdyno.measure.stopwatch import Clock, between, thread_clock
from netdyno.probes._base import probe
from netdyno.records.evidence import Op, OpTable
from netdyno.targets.subject import Subject

PROFILED = 3  # reading a profile costs more than the updates in it
TIMED = 5
WARMUP = 2


class Span(NamedTuple):
    """One event of the profiler: nanoseconds on one thread."""

    name: str
    thread: int
    start: int
    end: int


@dataclass
class Reduced:
    """Operators of one update: own nanoseconds and calls by name, and how many were called from outside of any."""

    own: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    calls: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    dispatches: int = 0


@probe
def collect(subject: Subject, *, clock: Clock | None = None, steps: int = 10) -> OpTable:
    clock = clock or thread_clock()
    batch = one_batch(subject)
    with turning(subject):
        for _ in range(WARMUP):
            train_on(subject, batch)
        timed = [_seconds(subject, batch, clock) for _ in range(max(2, min(TIMED, steps)))]
        profiles = [reduced(_profiled(subject, batch)) for _ in range(PROFILED)]
    # A busy machine can only add to a wall time, and adds in another place each time: the least of each is nearest.
    own = {name: min(found.own.get(name, seconds) for found in profiles) for name, seconds in profiles[-1].own.items()}
    # The profiler has only wall time. Where every try was disturbed, its operators seem to take longer than the update
    # does without waiting for a core; they share what there is, and nothing can be said of Python.
    operators = sum(own.values()) / 1e9
    shrunk = min(1.0, min(timed) / operators) if operators else 1.0
    return OpTable(
        ops=tuple(
            Op(name=name, calls=float(profiles[-1].calls[name]), seconds=shrunk * seconds / 1e9)
            for name, seconds in sorted(own.items(), key=lambda item: -item[1])
        ),
        dispatches=float(profiles[-1].dispatches),
        operator_s=shrunk * operators,
        python_s=max(0.0, min(timed) - operators),
    )


def reduced(spans: Iterable[Span]) -> Reduced:
    """Own time per operator, from spans that lie inside each other. One operator inside another is no dispatch.

    >>> found = reduced([Span("aten::linear", 1, 0, 10), Span("aten::addmm", 1, 2, 9)])
    >>> dict(found.own), found.dispatches
    ({'aten::linear': 3, 'aten::addmm': 7}, 1)
    """
    found = Reduced()
    for thread in _by_thread(spans).values():
        _reduce(thread, found)
    return found


def _reduce(spans: list[Span], found: Reduced) -> None:
    around: list[Span] = []
    for span in sorted(spans, key=lambda item: (item.start, -item.end)):
        while around and around[-1].end <= span.start:
            around.pop()
        length = span.end - span.start
        found.own[span.name] += length
        found.calls[span.name] += 1
        if around:
            found.own[around[-1].name] -= length
        if _is_operator(span.name) and not any(_is_operator(outer.name) for outer in around):
            found.dispatches += 1
        around.append(span)


def _by_thread(spans: Iterable[Span]) -> dict[int, list[Span]]:
    threads: dict[int, list[Span]] = defaultdict(list)
    for span in spans:
        threads[span.thread].append(span)
    return threads


def _profiled(subject: Subject, batch: Any) -> list[Span]:
    with profiler() as profile:
        train_on(subject, batch)
    assert profile.profiler is not None
    assert profile.profiler.kineto_results is not None
    return [
        Span(event.name(), event.start_thread_id(), event.start_ns(), event.end_ns())
        for event in profile.profiler.kineto_results.events()
        if _counts(event)
    ]


def _counts(event: Any) -> bool:
    """Operators and the nodes of the backward pass; not what only marks a stretch of Python, and not memory."""
    return not event.is_user_annotation() and (_is_operator(event.name()) or "Backward" in event.name())


def _is_operator(name: str) -> bool:
    return "::" in name and not name.startswith("autograd::")


def _seconds(subject: Subject, batch: Any, clock: Clock) -> float:
    before = clock()
    train_on(subject, batch)
    return between(before, clock()).own
