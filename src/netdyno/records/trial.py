"""A change, how it was tried, and what was decided."""

from typing import Literal

import msgspec

from netdyno.records.base import Noun
from netdyno.records.measured import Interval, Measurement

Scalar = str | int | float | bool | None
Numerics = Literal["same-bits", "reordered", "lower-precision", "other-randomness", "other-training"]
Form = Literal["in-process", "processes"]


class Change(Noun, frozen=True, kw_only=True):
    """An intervention written down: which one, and with what settings."""

    id: str
    settings: dict[str, Scalar] = msgspec.field(default_factory=dict)

    @property
    def label(self) -> str:
        """For people: `loader-workers(workers=4)`."""
        inside = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"{self.id}({inside})" if inside else self.id


class Prediction(Noun, frozen=True, kw_only=True):
    """Written down before the trial: the share of a step that the change should save, and why."""

    low: float
    high: float
    why: str

    @property
    def middle(self) -> float:
        """The point estimate that a trial's result is scored against."""
        return (self.low + self.high) / 2


class Parity(Noun, frozen=True, kw_only=True):
    """How far the treatment's answers lie from the control's, against what is allowed."""

    output: str
    worst: float
    allowed: float
    measure: Literal["bits", "abs", "rel", "envelope", "metric"]

    @property
    def holds(self) -> bool:
        """True when the worst difference is within what is allowed."""
        return self.worst <= self.allowed


class Trajectories(Noun, frozen=True, kw_only=True):
    """Training runs of one arm: one row per seed, losses per step and validation after each round."""

    seeds: tuple[int, ...]
    train_losses: tuple[tuple[float, ...], ...]
    val_losses: tuple[tuple[float, ...], ...]
    val_metrics: tuple[tuple[float, ...], ...] = ()


class Stability(Noun, frozen=True, kw_only=True):
    """Spread of the validation loss, two definitions apart (ledger A-029), each with its interval.

    `over_epochs`: standard deviation over rounds after burn-in, pooled over seeds.
    `over_seeds`: standard deviation of the last validation loss over seeds.
    """

    over_epochs: Interval | None
    over_seeds: Interval | None
    rounds: int
    seeds: int


class Guard(Noun, frozen=True, kw_only=True):
    """A condition that a faster change must not break. `holds` None means it could not be judged."""

    name: str
    holds: bool | None
    says: str


class Memory(Noun, frozen=True, kw_only=True):
    """Bytes of one arm: saved activations and persistent state counted exactly, `peak` as measured
    (PSS summed over the arm's process group on a CPU, the allocator's peak on a GPU)."""

    activations: int = 0
    state: int = 0
    peak: int | None = None


class Trial(Noun, frozen=True, kw_only=True):
    """Control and treatment stepped in turns, order random within each pair.

    `control` and `treatment` hold running-plus-blocked seconds per step, one sample per pair, in
    the order they were taken. `order` has a letter pair per pair (`AB` or `BA`; A is the control);
    `spawns` says which respawn a pair belongs to. At each of `looks`, a count of pairs, the data were looked at.
    `checksums` are the first batches of either side.
    """

    change: Change
    against: tuple[Change, ...]
    form: Form
    numerics: Numerics
    control: Measurement
    treatment: Measurement
    order: tuple[str, ...] = ()
    spawns: tuple[int, ...] = ()
    looks: tuple[int, ...] = ()
    rerun: int = 0
    steps_per_turn: int = 1
    prediction: Prediction | None = None
    parity: tuple[Parity, ...] = ()
    guards: tuple[Guard, ...] = ()
    memory_control: Memory | None = None
    memory_treatment: Memory | None = None
    setup_s: float = 0.0
    checksums: tuple[str, str] | None = None
    planned_pairs: int = 0
    noise: float | None = None
    cost_s: float = 0.0
    failed: str | None = None
    last_words: str | None = None


class Ticks(Noun, frozen=True, kw_only=True):
    """The iron rule (ledger A-007): each tick is a sentence with a number, or None when it is missing."""

    quantified: str | None
    undoable: str | None
    attributable: str | None

    @property
    def all(self) -> bool:
        """True when none is missing."""
        return None not in (self.quantified, self.undoable, self.attributable)


class Verdict(Noun, frozen=True, kw_only=True):
    """What was decided about trial number `trial`. `gain` is the share of a step saved."""

    trial: int
    decision: Literal["keep", "drop", "undecided"]
    gain: Interval | None
    reasons: tuple[str, ...]
    ticks: Ticks | None = None


class ArmTimes(Noun, frozen=True, kw_only=True):
    """One arm of the ladder: its recipe, and seconds per step by spawn and round."""

    recipe: tuple[Change, ...]
    times: tuple[tuple[float, ...], ...]


class Share(Noun, frozen=True, kw_only=True):
    """One change's part of the total, in seconds per step saved.

    `forward` is what it added when changes are switched on in the order of the walk, `backward` when they
    are switched on in reverse order, `left_out` what the final recipe loses without it. `gain` is the
    mean of forward and backward.
    """

    change: Change
    gain: Interval
    forward: Interval
    backward: Interval
    left_out: Interval
    trial: int | None = None
    code: str = ""


class Interaction(Noun, frozen=True, kw_only=True):
    """Seconds per step that changes save only together (positive) or win twice (negative)."""

    change: Change
    term: Interval
    distinguishable: bool


class Attribution(Noun, frozen=True, kw_only=True):
    """The total gain, piece by piece: rows plus residual equal the total, which is measured apart."""

    baseline_s: Interval
    final_s: Interval
    total: Interval
    speedup: Interval
    shares: tuple[Share, ...]
    residual: Interval
    interactions: tuple[Interaction, ...] = ()
    arms: tuple[ArmTimes, ...] = ()
    check_baseline: tuple[tuple[float, ...], ...] = ()
    check_final: tuple[tuple[float, ...], ...] = ()
    steps_per_epoch: int | None = None
    form: Form = "processes"
    cost_s: float = 0.0
