"""End a run when validation gets no better, and give back the best weights.

Helps:      models that fit too closely when they train too long.
Costs:      the floor of the valley, where a rate still cools down; what is chosen on validation data looks better there than elsewhere.
Not this:   chosen by the score: weights are chosen by the validation loss and judged by the score, so that no luck is praised.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.records.study import Stage

LEAST_CHANGE = 1e-4  # a smaller fall of a loss is no progress (ledger A-160)


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """Over after `patience` evaluations in a row whose loss is not lower than the best by more than `min_delta`."""

    patience: int = 3
    min_delta: float = LEAST_CHANGE

    stage: ClassVar[Stage] = "reg"
    reason: ClassVar[str] = "stops fitting where validation says that what is fitted is noise"
    asks: ClassVar[str] = "how long should one wait for a better validation loss?"
    effort_min: ClassVar[float] = 5.0
    order: ClassVar[int] = 70

    def refuses(self, setup: Setup) -> str | None:
        if self.patience < 1:
            return f"a patience of `{self.patience}` waits for nothing"
        if self.min_delta < 0:
            return f"a loss that rises by `{-self.min_delta}` is no progress"
        if setup.updates < 2:
            return "one update is nothing to stop"
        return None

    def settings(self, _: Setup) -> tuple[Knob, ...]:
        return (EarlyStopping(3), EarlyStopping(5))

    def turned(self, setup: Setup) -> Setup:
        return replace(setup, stop=Patience(self.patience, self.min_delta), best=True)

    def code(self) -> str:
        return (
            "# after each evaluation; before the first: best, waited, kept = math.inf, 0, None\n"
            f"if loss < best - {self.min_delta}:\n"
            "    best, waited = loss, 0\n"
            "    kept = {name: value.clone() for name, value in model.state_dict().items()}\n"
            "else:\n"
            "    waited += 1\n"
            f"if waited >= {self.patience}:\n"
            "    model.load_state_dict(kept)  # and leave the loop"
        )


@dataclass(frozen=True, slots=True)
class Patience:
    """(course so far) -> True when it is over."""

    evaluations: int
    min_delta: float

    def __call__(self, course: Sequence[tuple[int, float, float]]) -> bool:
        return len(course) - 1 - best_at([loss for _, loss, _ in course], self.min_delta) >= self.evaluations


def best_at(losses: Sequence[float], min_delta: float = LEAST_CHANGE) -> int:
    """Which evaluation was the last that was better, by more than `min_delta`, than the best before it.

    >>> best_at([3.0, 2.0, 1.99995, 2.5])
    1
    """
    best = 0
    for at, loss in enumerate(losses):
        if loss < losses[best] - min_delta:
            best = at
    return best
