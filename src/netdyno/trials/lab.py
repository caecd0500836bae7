"""What every trial of a campaign shares: the target, the plan, and what was learned about noise and quality."""

import math
import random
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from netdyno.arms import open_arm, steps_per_turn
from netdyno.arms.base import Arm
from netdyno.arms.in_process import FIRST_STEPS
from netdyno.interventions._base import environment_of, form_of, read
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Measurement
from netdyno.records.record import Plan
from netdyno.records.trial import Change, Form, Guard, Parity, Trajectories, Trial
from netdyno.targets.workload import Workload
from netdyno.trials.quality import Course, course, trajectories
from netdyno.trials.undo import not_undone
from netdyno.verdicts import guards
from netdyno.verdicts.attribute import Key, key_of

# Short enough that drift within a pair stays small, long enough that switching arms costs little beside it.
TURN_S: dict[Form, float] = {"in-process": 0.02, "processes": 0.25}
# Loader workers start anew with every epoch, fill their queue, and drain it at its end. A turn of some steps may eat
# what was prefetched before it and leave the start out: where there are workers, a turn is whole epochs, up to this long.
LONGEST_EPOCH_S = 3.0
# What a trial takes as a rule; twice as much when both sides must start as new interpreters.
TRIAL_S: dict[Form, float] = {"in-process": 3.0, "processes": 18.0}
WARM_TURNS = 2


def workers_of(recipe: Sequence[Change]) -> int:
    """Loader workers that a recipe asks for."""
    return max((int(change.settings.get("workers") or 0) for change in recipe), default=0)


def wall_of(steps: Measurement) -> float:
    """Wall seconds per step: what the middle sample took, and the waiting that came on top of it.

    Budgets are wall time, while samples leave out what other programs took.
    """
    own = sorted(steps.samples)[len(steps.samples) // 2]
    return own / max(1.0 - steps.waiting_share, 0.05)


class AnyLab(Protocol):
    """What trials ask of a target on the dyno, whatever kind of target it is."""

    @property
    def plan(self) -> Plan:
        """What the run was asked to do."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds, for budgets."""

    @property
    def listener(self) -> Listener:
        """Who hears of progress."""

    @property
    def chance(self) -> random.Random:
        """Draws the order of turns."""

    @property
    def noise(self) -> dict[Form, float]:
        """Standard deviation of the log ratios of an A/A trial, by form."""

    @property
    def line(self) -> float:
        """The share of a step saved above which a change is worth keeping."""

    @property
    def limit_s(self) -> float:
        """Seconds after which a side that does not answer is taken to hang."""

    @property
    def paths(self) -> int:
        """On how many paths the two sides of a trial train: on two their losses can be compared, on one they cannot."""

    @property
    def per_epoch(self) -> int | None:
        """Steps of one epoch of the original program, where they are known."""

    @property
    def updates(self) -> int | None:
        """Updates of the whole training, where they are known: what pays back a change's set-up."""

    @property
    def updates_seen(self) -> int:
        """Updates that the training has at least, where nobody knows how many in all."""

    def form(self, *recipes: tuple[Change, ...]) -> Form:
        """How sides under these recipes can be compared."""

    def rungs(self, recipes: tuple[tuple[Change, ...], ...]) -> Form:
        """How the rungs of an attribution are compared."""

    def open(self, recipe: tuple[Change, ...], form: Form, *, limit_s: float | None = None, fresh: bool = False) -> Arm:
        """One side, ready to step. Raises ArmError."""

    def fresh(self, *recipes: tuple[Change, ...]) -> bool:
        """Whether one of these recipes asks all sides for a dearer form: new interpreters, or turns of whole epochs."""

    def expected_s(self, recipe: tuple[Change, ...]) -> float:
        """Seconds that a trial is expected to take whose treatment runs `recipe`."""

    def warm(self, arms: list[Arm], form: Form) -> tuple[int, list[list[float]]]:
        """Warm-up turns; how many steps a turn shall have, and the warm-up samples."""

    def probe(self, recipe: tuple[Change, ...]) -> None:
        """Take the first step of what could take minutes where it can be ended. Raises ArmError."""

    def not_undone(self, change: Change, *, against: tuple[Change, ...]) -> str | None:
        """What is different after a change was applied and taken back; None when nothing is."""

    def examines(self, trial: Trial) -> bool:
        """Whether a faster change's effect on the training must be looked at in runs of its own."""

    def quality(self, trial: Trial) -> tuple[tuple[Parity, ...], list[Guard]]:
        """What a faster change does to the training, against a control that only rounds differently."""


@dataclass(frozen=True, kw_only=True)
class Lab:
    """A target on the dyno. `learned` remembers what need not be measured twice in one campaign."""

    reference: str
    workload: Workload
    plan: Plan
    clock: Callable[[], float] = time.monotonic
    listener: Listener = silent
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    opener: Callable[..., Arm] = open_arm
    noise: dict[Form, float] = field(default_factory=dict)
    learned: dict[tuple[Key, int], Trajectories] = field(default_factory=dict)
    course: list[Course] = field(default_factory=list)  # the one length that all quality runs of a campaign share
    paths: int = 2
    updates_seen: int = 0  # a workload that does not say how long it trains is taken at its word

    def form(self, *recipes: tuple[Change, ...]) -> Form:
        """In one process where that is possible; processes when any side has loader workers or alters its process."""
        if self.workload.loader.get("num_workers"):
            return "processes"
        return "processes" if any(form_of(recipe) == "processes" for recipe in recipes) else "in-process"

    def open(self, recipe: tuple[Change, ...], form: Form, *, limit_s: float | None = None, fresh: bool = False) -> Arm:
        """One side, built and ready to step; `fresh` as a new interpreter instead of a fork. Raises ArmError."""
        return self.opener(
            self.reference if form == "processes" else self.workload,
            recipe,
            form=form,
            seed=self.plan.seed,
            limit_s=limit_s or self.limit_s,
            fresh=fresh,
        )

    @staticmethod
    def rungs(_: tuple[tuple[Change, ...], ...]) -> Form:
        """In processes of their own, always: what is claimed of a workload is claimed of whole programs."""
        return "processes"

    @staticmethod
    def fresh(*recipes: tuple[Change, ...]) -> bool:
        """Whether sides must start as new interpreters: all of them as soon as one needs environment variables,
        or a difference of birth would be measured."""
        return any(environment_of(recipe) for recipe in recipes)

    def expected_s(self, recipe: tuple[Change, ...]) -> float:
        """Seconds that a trial is expected to take whose treatment runs `recipe`."""
        trial_s = TRIAL_S[self.form(recipe)] * (2 if self.fresh(recipe) else 1)
        return trial_s + float(getattr(read(recipe[-1]), "seconds_to_try", 0.0)) if recipe else trial_s

    @property
    def line(self) -> float:
        """The share of a step saved above which a change is worth keeping: the least gain, or under a memory goal
        what may be lost for it."""
        return -self.plan.time_price if self.plan.goal == "memory" else self.plan.least_gain

    @property
    def limit_s(self) -> float:
        """Seconds after which a side that does not answer is taken to hang."""
        return max(60.0, self.plan.trial_s)

    def warm(self, arms: list[Arm], form: Form) -> tuple[int, list[list[float]]]:
        """Warm-up turns, alike for all arms; how many steps a turn shall have, and the warm-up samples.

        The first step of an arm may compile, allocate and start workers: it is taken apart from the rest.
        """
        samples: list[list[float]] = [[arm.turn(1).per_step] for arm in arms]
        last = steps = 2
        for _ in range(WARM_TURNS):
            slowest = 1e-6
            for arm, taken in zip(arms, samples, strict=True):
                seconds = arm.turn(steps).per_step
                taken.append(seconds)
                slowest = max(slowest, seconds)
            last, steps = steps, self.steps_of_a_turn(slowest, form, workers=self._workers(arms))
        if self.per_epoch is not None and steps % self.per_epoch == 0:
            # On to the end of an epoch, so that a turn is a whole one from its first batch to its last.
            ahead = -(FIRST_STEPS + 1 + 2 + (WARM_TURNS - 1) * last) % self.per_epoch
            for arm, taken in zip(arms, samples, strict=True):
                taken.extend([arm.turn(ahead).per_step] if ahead else [])
        return steps, samples

    def steps_of_a_turn(self, step_s: float, form: Form, *, workers: int = 0) -> int:
        """How many steps make a turn, for arms whose slowest takes `step_s` seconds a step."""
        epoch_s = (self.per_epoch or math.inf) * step_s
        if workers and self.per_epoch is not None and epoch_s <= LONGEST_EPOCH_S:
            return self.per_epoch * max(1, round(TURN_S[form] / epoch_s))
        return steps_per_turn(step_s, TURN_S[form], workers=workers)

    def _workers(self, arms: list[Arm]) -> int:
        declared = int(self.workload.loader.get("num_workers") or 0)
        return max(declared, *(workers_of(arm.recipe) for arm in arms))

    @property
    def per_epoch(self) -> int | None:
        """Steps of one epoch of the original program."""
        train, _ = self.workload.datasets()
        return self.workload.feed(train).steps_per_epoch

    @property
    def updates(self) -> int | None:
        """Updates of the whole training, as the workload declares them."""
        return self.workload.updates

    def probe(self, recipe: tuple[Change, ...]) -> None:
        """What could take minutes takes its first step in a process of its own, under a time-out. Raises ArmError."""
        if not getattr(read(recipe[-1]), "seconds_to_try", 0.0):
            return
        self.listener(Event(f"probing {recipe[-1].label} under a time-out", 0, 1))
        with closing(self.open(recipe, "processes", limit_s=self.limit_s)) as arm:
            arm.turn(2)

    def not_undone(self, change: Change, *, against: tuple[Change, ...]) -> str | None:
        """What is different after a change was applied and taken back; None when nothing is."""
        return not_undone(self.workload, change, against=against, seed=self.plan.seed)

    @staticmethod
    def examines(trial: Trial) -> bool:
        """What may change bits, unless it was seen not to while the two sides took turns on the same batches."""
        seen_alike = any(parity.measure == "bits" and parity.worst == 0 for parity in trial.parity)
        return trial.numerics != "same-bits" and not seen_alike

    def quality(self, trial: Trial) -> tuple[tuple[Parity, ...], list[Guard]]:
        """The gate that fits the trial's numerics class, from short training runs."""
        step_s = wall_of(trial.control)
        control = self.learning(trial.against, step_s=step_s)
        treatment = self.learning((*trial.against, trial.change), step_s=step_s)
        allowed = self.workload.allowed
        if trial.numerics in {"reordered", "lower-precision"}:
            reordered = tuple(self.learning(trial.against, step_s=step_s, nudge=nudge) for nudge in (1, 2))
            parity = guards.envelope(control, reordered, treatment, tolerance=allowed.loss)
        else:
            parity = guards.not_worse(control, treatment, tolerance=allowed.loss)
        steady = guards.steady(guards.stability(control), guards.stability(treatment), spread=allowed.spread)
        return (parity,), [steady, guards.finite(treatment, control)]

    def learning(self, recipe: tuple[Change, ...], *, step_s: float, nudge: int = 0) -> Trajectories:
        """How the target learns under a recipe; measured once and remembered.

        All runs of a campaign have the length that the first one had, or they could not be compared.
        """
        if not self.course:
            budget_s = min(self.plan.quality_s, self.plan.budget_s / 12)
            # Four sides: control, two that only round differently, treatment.
            self.course.append(
                course(
                    step_s=step_s,
                    budget_s=budget_s,
                    sides=4,
                    steps_per_epoch=self.per_epoch,
                    seed=self.plan.seed,
                )
            )
        key = (key_of(recipe), nudge)
        if key not in self.learned:
            self.learned[key] = trajectories(self.workload, recipe, self.course[0], nudge=nudge, listener=self.listener)
        return self.learned[key]
