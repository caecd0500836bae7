"""What the instrument found out about itself."""

from netdyno.records.base import Noun
from netdyno.records.environment import Environment
from netdyno.records.measured import Interval


class KnownAnswer(Noun, frozen=True, kw_only=True):
    """A delay that was injected, in seconds per step, and what the stopwatch made of it."""

    phase: str
    kind: str
    injected_s: float
    found_s: float
    found_phase: str
    found_kind: str

    @property
    def error(self) -> float:
        """How far off the size is, as a share of what was injected."""
        return abs(self.found_s - self.injected_s) / self.injected_s

    @property
    def right(self) -> bool:
        """Found in its phase, as its kind, its size within a tenth."""
        return self.found_phase == self.phase and self.found_kind == self.kind and self.error <= 0.10


class SelfTest(Noun, frozen=True, kw_only=True):
    """Whether the instrument can be believed here, today.

    `noise` is the standard deviation of log ratios of A/A pairs, `same` the A/A estimate with its interval (share of a
    step; it should hold 0), `smallest_effect` the share of a step that a trial of `pairs` pairs still tells from the
    line it is judged by, nine times in ten. `own_cost_s` is the stopwatch's own cost per step.
    """

    environment: Environment
    answers: tuple[KnownAnswer, ...]
    noise: float
    same: Interval
    pairs: int
    smallest_effect: float
    own_cost_s: float
    step_s: float
    waiting_share: float

    @property
    def holds(self) -> bool:
        """True when every known answer was right and two equal sides were not told apart."""
        return all(answer.right for answer in self.answers) and self.same.holds(0.0)
