"""Let the learning rate follow a course instead of standing still.

Helps:      nearly always: long steps find the valley, short ones at the end find its floor.
Costs:      the end must be known before; a run that is cut short has not yet cooled down.
Not both:   a course replaces another one; "plateau" watches the validation loss, and is not joined to one that is fixed before.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._schedules import Constant, Cosine, Linear, OneCycle, Plateau
from netdyno.records.study import Stage

COURSES: dict[str, Any] = {
    "constant": Constant(), "cosine": Cosine(), "linear": Linear(), "one-cycle": OneCycle(), "plateau": Plateau(),
}  # fmt: skip
# One-cycle divides its rises and falls among updates: with fewer it has neither.
LEAST_CYCLE = 20


@dataclass(frozen=True, slots=True)
class Schedule:
    """`course` is "cosine", "linear", "one-cycle", "plateau" or "constant"; `peak` multiplies the rate that it starts or culminates in."""

    course: str = "cosine"
    peak: float = 1.0

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = (
        "shortens the steps as the valley narrows, so that the noise of batches is averaged at the end"
    )
    asks: ClassVar[str] = "how should the rate go from the first update to the last?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 56  # it reads the rates that stand

    def refuses(self, setup: Setup) -> str | None:
        if self.course not in COURSES:
            return f"`{self.course}` is none of {', '.join(COURSES)}"
        if not 0 < self.peak < float("inf"):
            return f"a peak of `{self.peak}` times the rate is none"
        if self.course == "one-cycle" and setup.updates < LEAST_CYCLE:
            return f"a cycle cannot rise and fall in {setup.updates} updates"
        return None

    def settings(self, _: Setup) -> tuple[Knob, ...]:
        # What cools down bears a higher rate at its beginning.
        return (
            Schedule("cosine"), Schedule("cosine", 3.0), Schedule("one-cycle", 3.0), Schedule("one-cycle"), Schedule("linear"),
            Schedule("plateau"),
        )  # fmt: skip

    def turned(self, setup: Setup) -> Setup:
        course = COURSES[self.course]
        if self.course == "one-cycle":
            return replace(setup, schedule=replace(course, peak=self.peak))
        return replace(setup, schedule=course if self.peak == 1 else Raised(course, self.peak))

    def code(self) -> str:
        peak = "" if self.peak == 1 else f'for group in optimizer.param_groups:\n    group["lr"] *= {self.peak}\n'
        return f"{peak}{_WRITTEN[self.course]}"


_MULTIPLIED = "\n\nscheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: course(at, updates))  # step it after each update"
_WRITTEN = {
    "constant": f"def course(at, updates):\n    return 1.0\n{_MULTIPLIED}",
    "cosine": "def course(at, updates):\n"
    f"    return 0.5 * (1 + math.cos(math.pi * min(at, updates) / updates))  # import math\n{_MULTIPLIED}",
    "linear": f"def course(at, updates):\n    return 1 - min(at, updates) / updates\n{_MULTIPLIED}",
    "one-cycle": "scheduler = torch.optim.lr_scheduler.OneCycleLR(  # step it after each update\n"
    '    optimizer, max_lr=[group["lr"] for group in optimizer.param_groups], total_steps=updates, pct_start=0.1,\n'
    '    cycle_momentum="betas" in optimizer.param_groups[0] or bool(optimizer.param_groups[0].get("momentum")),\n)',
    "plateau": "# step it with the validation loss after each evaluation\n"
    "scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3, threshold=1e-4)",
}


@dataclass(frozen=True, slots=True)
class Raised:
    """A course whose rates are all `peak` times as high."""

    course: Any
    peak: float

    def factor(self, at: int, updates: int) -> float:
        return self.peak * float(self.course.factor(at, updates))

    def __call__(self, optimizer: Any, updates: int) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.peak
        return self.course(optimizer, updates)
