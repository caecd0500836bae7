"""Numbers as they were measured: raw samples first, a range beside every summary."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun


class Interval(Noun, frozen=True, kw_only=True):
    """An estimate with its range: `middle` lies between `low` and `high` at confidence `level`."""

    middle: float
    low: float
    high: float
    level: float = 0.95

    @property
    def width(self) -> float:
        """How far the two ends lie apart, in the unit of the estimate."""
        return self.high - self.low

    def holds(self, value: float) -> bool:
        """True when `value` lies inside the interval, ends included."""
        return self.low <= value <= self.high


class Split(Noun, frozen=True, kw_only=True):
    """Wall time of one thread, in seconds, told apart by what the thread was doing.

    `running` on a core, `waiting` for a core that somebody else had (Linux run delay),
    `blocked` on I/O, a lock, a sleep or another process.
    """

    running: float = 0.0
    waiting: float = 0.0
    blocked: float = 0.0

    @property
    def wall(self) -> float:
        """All three together: what a wall clock shows, in seconds."""
        return self.running + self.waiting + self.blocked

    @property
    def own(self) -> float:
        """Running plus blocked seconds: the part that a busy neighbour does not add to."""
        return self.running + self.blocked

    def __add__(self, other: "Split") -> "Split":
        return Split(
            running=self.running + other.running,
            waiting=self.waiting + other.waiting,
            blocked=self.blocked + other.blocked,
        )

    def per(self, count: float) -> "Split":
        """The same split divided by `count`, for instance per step."""
        return Split(
            running=self.running / count,
            waiting=self.waiting / count,
            blocked=self.blocked / count,
        )


class Turn(Noun, frozen=True, kw_only=True):
    """What an arm did when it was told to step: `steps` training steps and where their time went.

    `phases` are exclusive and add up to `time`; both are totals over the turn, in seconds, of the stepping thread.
    `losses` has one training loss per step. `others_running` and `others_waiting` are seconds on a core, and waiting
    for one, of the arm's other threads and of its loader workers; `crowded` says that more of them than there are
    cores were at work. `foreign_running` are the seconds that all other programs spent on the cores meanwhile.
    """

    steps: int
    time: Split
    phases: dict[str, Split] = msgspec.field(default_factory=dict)
    losses: tuple[float, ...] = ()
    others_running: float = 0.0
    others_waiting: float = 0.0
    foreign_running: float = 0.0
    crowded: bool = False

    @property
    def own_waiting(self) -> float:
        """Seconds that the stepping thread waited for a core that the arm's own threads and workers had.

        An arm that runs more threads than there are cores waits for itself, and that is its price. Its part of the
        waiting is its part of what the others had of the cores; an arm that fits onto the cores waits for strangers only.
        """
        if not self.crowded or not self.others_running:
            return 0.0
        return self.time.waiting * self.others_running / (self.others_running + self.foreign_running)

    @property
    def per_step(self) -> float:
        """Seconds per step that are the arm's own doing, running, blocked, or waiting for itself: a trial's metric."""
        return (self.time.own + self.own_waiting) / self.steps

    @property
    def waiting_share(self) -> float:
        """The share of the turn's wall time that went to waiting for a core that other programs had."""
        return (self.time.waiting - self.own_waiting) / self.time.wall if self.time.wall else 0.0


class Measurement(Noun, frozen=True, kw_only=True):
    """Raw samples of one quantity. `warmup` samples were taken first and are not in `samples`."""

    quantity: str
    unit: str
    samples: tuple[float, ...]
    better: Literal["lower", "higher"] = "lower"
    warmup: tuple[float, ...] = ()
    items_per_sample: int = 1
    environment: str = ""
    waiting_share: float = 0.0
