"""Begin with small steps.

Helps:      large rates, normalisation layers and Adam's estimates, which are wild in the first updates; transformers most of all.
Costs:      the updates that it takes; a run of few updates has none to spare.
Not this:   with one-cycle, which rises by itself, or plateau, which watches the loss.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._schedules import Constant, OneCycle, Plateau, Warmed, known_before, warmup_updates
from netdyno.records.study import Stage

# A warm-up longer than this takes more from the run than it can give.
MOST = 0.5


@dataclass(frozen=True, slots=True)
class Warmup:
    """`amount` in one of the forms "share" (of all updates), "updates" or "epochs"."""

    form: str = "share"
    amount: float = 0.1

    stage: ClassVar[Stage] = "optim"
    reason: ClassVar[str] = "keeps the first steps short while gradients and their running means are still wild"
    asks: ClassVar[str] = "how long should the rate rise before it is full?"
    effort_min: ClassVar[float] = 2.0
    order: ClassVar[int] = 58  # it is put before the course that stands

    def refuses(self, setup: Setup) -> str | None:
        if self.form == "formula":
            return "the formula needs an initial rate; ask `warmup_updates` for its number and give that in updates"
        if isinstance(setup.schedule, OneCycle):
            return "one-cycle rises by itself"
        if isinstance(setup.schedule, Plateau):
            return "the rate follows the validation loss, and is not known before"
        if not known_before(setup.schedule):
            return "what the schedule does at each update is not known before it begins"
        try:
            count = self.updates(setup)
        except NetdynoError as why:
            return str(why.because)
        if not 0 < count <= MOST * setup.updates:
            return f"{count} of {setup.updates} updates are no warm-up"
        return None

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        offered = (Warmup("share", 0.1), Warmup("share", 0.05), Warmup("epochs", 5.0), Warmup("updates", 500.0))
        return tuple(one for one in offered if one.refuses(setup) is None)

    def turned(self, setup: Setup) -> Setup:
        if not known_before(setup.schedule):
            raise NetdynoError(
                f"cannot warm up before `{type(setup.schedule).__name__}`",
                because="what it does at each update is not known before it begins, or it rises by itself",
                hint="take the warm-up or that course, not both",
            )
        course = setup.schedule if setup.schedule is not None else Constant()
        return replace(setup, schedule=Warmed(course, self.updates(setup)))

    def updates(self, setup: Setup) -> int:
        """How many updates it takes."""
        data, _ = setup.workload.datasets()
        per_epoch = replace(setup.workload.feed(data), batch_size=setup.batch_size).steps_per_epoch
        return warmup_updates(self.form, self.amount, updates=setup.updates, updates_per_epoch=per_epoch)

    def code(self) -> str:
        count = {
            "share": f"round({self.amount} * updates)",
            "epochs": f"round({self.amount} * updates_per_epoch)",
            "updates": f"{round(self.amount)}",
        }.get(self.form, "0")
        return (
            f"warmup = {count}\n\n\n"
            "def warmed(at):\n"
            "    if at < warmup:\n"
            "        return (at + 1) / warmup\n"
            "    return 1.0  # where there is a course: course(at - warmup, updates - warmup)\n\n\n"
            "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmed)  # step it after each update"
        )
