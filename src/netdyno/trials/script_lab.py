"""What the trials of one unmodified script share: its running session, and what was learned of its noise and training."""

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean

from netdyno.arms import steps_per_turn
from netdyno.arms.base import Arm
from netdyno.errors import ArmError
from netdyno.interventions._base import read
from netdyno.progress import Event, Listener, silent
from netdyno.records.record import Plan
from netdyno.records.trial import Change, Form, Guard, Parity, Stability, Trajectories, Trial
from netdyno.scripts.arms import ScriptArm, ScriptProcessArm, ScriptSession, Sources, from_the_start
from netdyno.scripts.launch import Ride, ride
from netdyno.stats.spread import pooled_deviation
from netdyno.targets.script import Script
from netdyno.targets.workload import Tolerance
from netdyno.trials.lab import LONGEST_EPOCH_S, TURN_S, WARM_TURNS, workers_of
from netdyno.verdicts import guards
from netdyno.verdicts.attribute import Key, key_of

# What a trial takes beside starting the script: in one process, turns; between processes, three spawns of turns.
TRIAL_S: dict[Form, float] = {"in-process": 5.0, "processes": 12.0}
SPAWNED = 6  # a trial between processes starts both sides three times
# Fewer updates than this say nothing about a trajectory; more than this many cost more than a trial.
FEWEST_UPDATES, MOST_UPDATES = 20, 200
# Compiling takes 11 to 30 s of computing on a quiet machine.
LEAST_LIMIT_S = 120.0
ROUNDING_CONTROLS = (1, 2)
WINDOWS = 5


@dataclass(frozen=True, kw_only=True)
class ScriptLab:
    """An unmodified script on the dyno.

    Changes that can be switched between steps are compared inside one running script; what only works from the start is
    compared between processes of it. `learned` and `sessions` are kept for the whole campaign.
    """

    script: Script
    plan: Plan
    clock: Callable[[], float] = time.monotonic
    listener: Listener = silent
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    in_place: bool = False
    online: bool = False
    allowed: Tolerance = field(default_factory=Tolerance)
    noise: dict[Form, float] = field(default_factory=dict)
    sessions: dict[Key, ScriptSession] = field(default_factory=dict)
    learned: dict[tuple[Key, int], Trajectories] = field(default_factory=dict)
    edited: dict[Key, Sources] = field(default_factory=dict)  # recipes that an edit of the source stands for
    startup_s: list[float] = field(default_factory=list)  # seconds from starting the script to its first updates
    workers: list[int] = field(default_factory=list)  # loader workers of the script as it is
    course: list[int] = field(default_factory=list)  # updates of a quality run, the same for a whole campaign

    lengths: list[int] = field(default_factory=list)  # updates of the script's whole run, when it was seen to its end
    passes: list[int] = field(default_factory=list)  # iterations that one pass over the training data makes
    seen: list[int] = field(default_factory=list)  # updates that it was watched for
    per_epoch: int | None = None
    paths: int = 1  # inside one script both sides move the same model

    @property
    def updates(self) -> int | None:
        """Updates of the whole training, when the script was seen to its own end."""
        return self.lengths[0] if self.lengths else None

    @property
    def updates_seen(self) -> int:
        """Updates of the longest run so far: the script has them, however long its whole run is."""
        return max(self.seen, default=0)

    @property
    def line(self) -> float:
        """The share of a step saved above which a change is worth keeping."""
        return -self.plan.time_price if self.plan.goal == "memory" else self.plan.least_gain

    @property
    def limit_s(self) -> float:
        """Seconds after which a side that does not answer is taken to hang; its first turn may compile."""
        return max(LEAST_LIMIT_S, 2 * self.plan.trial_s)

    def form(self, *recipes: tuple[Change, ...]) -> Form:
        """In one process when all recipes need the same start; else between processes."""
        return "in-process" if len({key_of(from_the_start(recipe)) for recipe in recipes}) <= 1 else "processes"

    def rungs(self, recipes: tuple[tuple[Change, ...], ...]) -> Form:
        """Rungs that can be switched between steps are raced inside one script: starting it anew costs far more."""
        return self.form(*recipes)

    def open(self, recipe: tuple[Change, ...], form: Form, *, limit_s: float | None = None, fresh: bool = False) -> Arm:
        """One side: a recipe in the running script, or a script of its own, whose turns are whole epochs when `fresh`.

        Raises ArmError.
        """
        if form == "in-process":
            return ScriptArm(self.session(from_the_start(recipe)), recipe)
        return ScriptProcessArm(
            self.script,
            recipe,
            seed=self.plan.seed,
            limit_s=limit_s or self.limit_s,
            in_place=self.in_place,
            online=self.online,
            sources=self.edited.get(key_of(recipe)),
            whole=fresh,
        )

    def session(self, start: tuple[Change, ...] = ()) -> ScriptSession:
        """The running script under changes that only work from the start; launched when first asked for."""
        key = key_of(start)
        if key not in self.sessions:
            self.listener(Event("starting the script", 0, 1))
            self.sessions[key] = ScriptSession(
                self.script,
                start,
                seed=self.plan.seed,
                limit_s=self.limit_s,
                in_place=self.in_place,
                online=self.online,
            )
        return self.sessions[key]

    def close(self) -> None:
        """End every running script."""
        for session in self.sessions.values():
            session.close()
        self.sessions.clear()

    @staticmethod
    def fresh(*recipes: tuple[Change, ...]) -> bool:
        """Every process of a script is a new interpreter. What all sides need as soon as one has another loader: turns in
        which the start of an epoch counts."""
        return any(read(change).layers[0] == "data" for recipe in recipes for change in from_the_start(recipe))

    def expected_s(self, recipe: tuple[Change, ...]) -> float:
        """Seconds that a trial is expected to take whose treatment runs `recipe`."""
        form = self.form((), recipe)
        startup_s = max(self.startup_s, default=5.0)
        own = TRIAL_S[form] + (SPAWNED * startup_s if form == "processes" else 0.0)
        # What changes roundings is looked at in a run of its own.
        own += startup_s if recipe and read(recipe[-1]).numerics != "same-bits" else 0.0
        return own + float(getattr(read(recipe[-1]), "seconds_to_try", 0.0)) if recipe else own

    def warm(self, arms: list[Arm], form: Form) -> tuple[int, list[list[float]]]:
        """Warm-up turns, alike for all arms; how many steps a turn shall have, and the warm-up samples."""
        samples: list[list[float]] = [[arm.turn(1).per_step] for arm in arms]
        steps = 2
        workers = max((*self.workers, *(workers_of(arm.recipe) for arm in arms)), default=0)
        for _ in range(WARM_TURNS):
            slowest = 1e-6
            for arm, taken in zip(arms, samples, strict=True):
                seconds = arm.turn(steps).per_step
                taken.append(seconds)
                slowest = max(slowest, seconds)
            steps = self._steps_of_a_turn(slowest, form, workers=workers)
        return steps, samples

    def _steps_of_a_turn(self, step_s: float, form: Form, *, workers: int) -> int:
        """Whole passes over the data where workers start anew with each, as long as those are short."""
        per_pass = self.passes[0] if self.passes else None
        if workers and form == "processes" and per_pass and per_pass * step_s <= LONGEST_EPOCH_S:
            return per_pass * max(1, round(TURN_S[form] / (per_pass * step_s)))
        return steps_per_turn(step_s, TURN_S[form], workers=workers)

    def probe(self, recipe: tuple[Change, ...]) -> None:
        """Nothing: a turn that takes too long ends the session, not the lab."""

    def not_undone(self, change: Change, *, against: tuple[Change, ...]) -> str | None:
        """What is different in the running script after a change was switched on and off without a step between.

        What only works from the start leaves nothing behind: its process has ended.
        """
        if from_the_start((change,)):
            return None
        return self.session(from_the_start(against)).undo(change, recipe=against)

    def refusal(self, change: Change, *, recipe: tuple[Change, ...]) -> str | None:
        """Why the running script cannot be given a change, in its own words, or None. Raises ArmError."""
        return self.session(from_the_start(recipe)).ask(change, recipe=recipe)

    @staticmethod
    def examines(_: Trial) -> bool:
        """Every change that is to be kept: also what promises the same bits is held to it, from the same start."""
        return True

    def quality(self, trial: Trial) -> tuple[tuple[Parity, ...], list[Guard]]:
        """Two runs of the script from the same start, with and without the change, against runs that only round otherwise.

        A script's validation is its own business and not known here: what is compared are its training losses.
        """
        try:
            control = self.learning(trial.against)
        except ArmError as problem:
            return (), [Guard(name="losses", holds=None, says=problem.says)]
        if self.course[0] < FEWEST_UPDATES:
            return (), [Guard(name="losses", holds=None, says=f"{self.course[0]} losses are too few to compare")]
        treatment = self.learning((*trial.against, trial.change))
        if trial.numerics == "same-bits" or control.train_losses == treatment.train_losses:
            losses, others = control.train_losses[0], treatment.train_losses[0]
            parity = guards.same_bits(losses, others, output=f"{len(losses)} losses from the same start")
        else:
            rounding = tuple(self.learning(trial.against, nudge=units) for units in ROUNDING_CONTROLS)
            parity = guards.envelope(control, rounding, treatment, tolerance=self.allowed.loss)
        steady = guards.steady(scatter(control), scatter(treatment), spread=self.allowed.spread)
        steady = Guard(name=steady.name, holds=steady.holds, says=steady.says.replace("validation", "training"))
        return (parity,), [steady, guards.finite(treatment, control)]

    def learning(self, recipe: tuple[Change, ...], *, nudge: int = 0) -> Trajectories:
        """The training losses of the script under a recipe, from its first update on; remembered. Raises ArmError."""
        key = (key_of(recipe), nudge)
        if key not in self.learned:
            updates = self.course[0] if self.course else MOST_UPDATES
            doing = "a control that only rounds otherwise" if nudge else "comparing losses from the same start"
            self.listener(Event(doing, 0, 1))
            seen = self.ride(recipe, updates=updates, nudge=nudge, watch=False, hz=0.0)
            self.learn(recipe, tuple(seen.stream.losses), nudge=nudge)
        return self.learned[key]

    def same_path(self, recipe: tuple[Change, ...], losses: tuple[float, ...]) -> Parity | None:
        """Whether these losses follow the script's path under a recipe, as far as rounding lets anyone follow it."""
        known = self.learned.get((key_of(recipe), 0))
        if known is None or not losses:
            return None
        kept = losses[: len(known.train_losses[0])]
        if kept == known.train_losses[0]:
            return guards.same_bits(kept, kept, output=f"{len(kept)} losses of the edited script")
        other = Trajectories(seeds=known.seeds, train_losses=(kept,), val_losses=((),))
        rounding = tuple(
            self.learned[key] for key in ((key_of(()), units) for units in ROUNDING_CONTROLS) if key in self.learned
        )
        return guards.envelope(known, rounding, other, tolerance=self.allowed.loss)

    def learn(self, recipe: tuple[Change, ...], losses: tuple[float, ...], *, nudge: int = 0) -> None:
        """Remember the losses of a run, as long as all runs of the campaign are. Raises ArmError for a run too short."""
        if not self.course:
            self.course.append(min(len(losses), MOST_UPDATES))
        kept = tuple(loss for loss in losses[: self.course[0]] if math.isfinite(loss))
        if not kept:
            raise ArmError(f"`{self.script.name}` showed no loss that could be read within its first updates")
        self.learned[(key_of(recipe), nudge)] = Trajectories(
            seeds=(self.plan.seed,), train_losses=(kept,), val_losses=((),)
        )

    def ride(
        self,
        recipe: tuple[Change, ...] = (),
        *,
        updates: int | None = None,
        seconds: float | None = None,
        nudge: int = 0,
        watch: bool = True,
        hz: float = 50.0,
        losses: bool = True,
        sources: Sources | None = None,
        vitals: bool = False,
        shift: int = 0,
        remedies: tuple[Mapping[str, object], ...] = (),
    ) -> Ride:
        """Run the script from its start, in a scratch copy, until so many updates or seconds. Raises NetdynoError.

        With `vitals` the numbers are looked at too, and a script that fails is no error: why it failed is evidence.
        `shift` moves every seed that the script gives; `remedies` are on from start to end.
        """
        return ride(
            self.script,
            seed=self.plan.seed + shift,
            shift=shift,
            remedies=remedies,
            vitals=vitals,
            forgiving=vitals,
            updates=updates,
            seconds=seconds if seconds is not None else self.plan.quality_s + max(self.startup_s, default=30.0),
            recipe=recipe,
            nudge=nudge,
            watch=watch,
            hz=hz,
            losses=losses,
            in_place=self.in_place,
            online=self.online,
            sources=sources,
            listener=self.listener,
        )


def scatter(run: Trajectories) -> Stability:
    """How much training losses scatter around their own trend, a moving average over a fifth of the run."""
    rests = []
    for losses in run.train_losses:
        window = max(2, len(losses) // WINDOWS)
        rests.append([
            losses[i] - fmean(losses[max(0, i - window // 2) : i + window // 2 + 1]) for i in range(len(losses))
        ])  # fmt: skip
    longest = min((len(rest) for rest in rests), default=0)
    return Stability(
        over_epochs=pooled_deviation(rests) if longest > WINDOWS else None,
        over_seeds=None,
        rounds=longest,
        seeds=len(rests),
    )
