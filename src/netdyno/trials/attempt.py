"""One change, tried: control and treatment in turns, looked at after every block, then checked for what it costs."""

import random
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from netdyno.arms.base import Arm
from netdyno.errors import ArmError
from netdyno.interventions._base import items_factor_of, read
from netdyno.progress import Event
from netdyno.records.measured import Measurement
from netdyno.records.trial import Change, Form, Guard, Memory, Parity, Prediction, Trial
from netdyno.stats.sequential import look_error, pairs_needed, schedule
from netdyno.stats.spread import robust_noise
from netdyno.trials.lab import AnyLab
from netdyno.trials.race import Round, race
from netdyno.verdicts import guards
from netdyno.verdicts.judge import Look, look

# Sides are rebuilt this often within a trial, so that one lucky memory layout does not decide it.
REBUILDS = 3
# A side that took longer than this to build is not rebuilt in one process: compiling again buys nothing.
DEAR_SETUP_S = 2.0
PAIRS_PER_SPAWN = 5
FEWEST_PAIRS_PER_SPAWN = 2
FEWEST_SPAWNS = 3
MOST_SPAWNS = 12  # beyond it each one more narrows an interval by less than a twentieth
FEWEST_NOISE_PAIRS = 4
PARITY_STEPS = 20  # updates whose losses must agree to the bit before "same bits" is said


def try_change(
    lab: AnyLab,
    change: Change,
    *,
    against: tuple[Change, ...],
    error: float,
    prediction: Prediction | None = None,
    budget_s: float | None = None,
    checked: bool = True,
    pairs: int | None = None,
) -> Trial:
    """A whole trial of `change` on top of `against`. Never raises for what a side does: it becomes `failed`.

    `error` is this trial's part of the campaign's error budget, `budget_s` its seconds (default: the plan's).
    `checked=False` leaves out parity and guards, for a change that has passed them before. `pairs` is how many to take
    in one process at most (default: as many as the noise and the plan's least gain ask for).
    """
    began = lab.clock()
    intervention = read(change)
    form = lab.form(against, (*against, change))
    session = _Session(lab=lab, change=change, against=against, form=form, error=error, began=began, most=pairs)
    session.deadline = began + (budget_s or lab.plan.trial_s)
    trial = Trial(
        change=change,
        against=against,
        form=form,
        numerics=intervention.numerics,
        control=_measurement(()),
        treatment=_measurement(()),
        prediction=prediction,
    )
    try:
        if checked:
            lab.probe((*against, change))
        session.run()
        trial = session.written(trial)
        trial = _checked(lab, trial, session.last) if checked else trial
    except ArmError as problem:
        trial = session.written(trial)
        trial = replace(trial, failed=problem.says, last_words=problem.last_words)
    except Exception as problem:  # a change that cannot even be applied is a failed trial, not the end of a run
        trial = session.written(trial)
        trial = replace(trial, failed=f"{type(problem).__name__}: {problem}")
    return replace(trial, cost_s=lab.clock() - began)


class Pair(NamedTuple):
    """Seconds per step of both sides, and how they were taken."""

    control: float
    treatment: float
    order: str
    spawn: int


@dataclass
class _Session:
    """The pairs of one trial as they come in."""

    lab: AnyLab
    change: Change
    against: tuple[Change, ...]
    form: Form
    error: float
    began: float
    most: int | None = None
    deadline: float = 0.0
    pairs: list[Pair] = field(default_factory=list)
    warmups: list[list[float]] = field(default_factory=lambda: [[], []])
    looks: list[int] = field(default_factory=list)
    waiting: list[float] = field(default_factory=lambda: [0.0, 0.0])
    last: Look | None = None
    rerun: int = 0
    same_losses: bool = True
    compared: int = 0
    steps: int = 1
    setup_s: float = 0.0
    planned: int = 0
    checksums: tuple[str, str] | None = None
    memory: tuple[Memory, Memory] | None = None

    def run(self) -> None:
        plan = self.lab.plan
        looks = self._schedule()
        self.planned = looks[-1] * (PAIRS_PER_SPAWN if self.form == "processes" else 1)
        spawn = 0
        while not self._over(looks):
            began = self.lab.clock()
            self._block(spawn, looks)
            spawn += 1
            if spawn == 1 and self.form == "processes":
                looks = self._that_fit(looks, self.lab.clock() - began)
                self.planned = looks[-1] * PAIRS_PER_SPAWN
        if self.last is None or (self.last.decision == "undecided" and self.pairs):
            # Out of time between two looks: one last look, with the error that the pairs since have released.
            self._look()
        self.lab.listener(Event(f"tried {self.change.label}", self.lab.clock() - self.began, plan.trial_s))

    def _schedule(self) -> tuple[int, ...]:
        """After how many units to look."""
        plan = self.lab.plan
        if self.form == "processes":
            return tuple(range(FEWEST_SPAWNS, max(plan.spawns, FEWEST_SPAWNS) + 1))
        if self.most is not None:
            return schedule(min(plan.min_pairs, self.most), self.most, self.error).looks
        noise = self.lab.noise.get(self.form, 0.1)
        # Half the least gain is the margin: a true gain of 1.5 times the least gain is then found, or one half of it
        # ruled out, nine times in ten.
        needed = pairs_needed(
            noise, margin=plan.least_gain / 2, error=self.error, minimum=plan.min_pairs, maximum=plan.max_pairs
        )
        return schedule(plan.min_pairs, needed, self.error).looks

    def _that_fit(self, looks: tuple[int, ...], spawn_s: float) -> tuple[int, ...]:
        """Looks after more spawns, when the first was quick: an interval over three spawns is ten times that over nine.

        Settled before the data are first looked at, by the time a spawn takes alone.
        """
        fit = int((self.deadline - self.began) / max(spawn_s, 1e-6))
        return tuple(range(FEWEST_SPAWNS, max(looks[-1], min(fit, MOST_SPAWNS)) + 1))

    @property
    def units(self) -> int:
        """What looks are counted in: pairs in one process, spawns between processes."""
        if self.form == "processes":
            return self.pairs[-1].spawn + 1 if self.pairs else 0
        return len(self.pairs)

    def _over(self, looks: tuple[int, ...]) -> bool:
        decided = self.last is not None and self.last.decision != "undecided"
        return decided or self.units >= looks[-1] or (bool(self.pairs) and self._late())

    def _late(self) -> bool:
        """Whether the trial's seconds are spent. Fewer than three spawns say nothing, so they are always taken."""
        if self.form == "processes" and self.units < FEWEST_SPAWNS:
            return False
        return self.lab.clock() > self.deadline

    def _block(self, spawn: int, looks: tuple[int, ...]) -> None:
        with ExitStack() as stack:
            control, treatment = self._sides(stack)
            steps, warmups = self.lab.warm([control, treatment], self.form)
            self.steps = steps
            for kept, new in zip(self.warmups, warmups, strict=True):
                kept.extend(new)
            self.setup_s = max(self.setup_s, treatment.setup_s - control.setup_s)
            race(
                [control, treatment],
                rounds=self._rounds(looks, treatment.setup_s),
                steps=steps,
                chance=self.lab.chance,
                waiting_limit=self.lab.plan.waiting_limit,
                until=self._until(spawn, looks),
                listener=self.lab.listener,
                doing=f"trying {self.change.label}",
            )
            if spawn == 0:
                self.checksums = (control.checksum(), treatment.checksum())
                self.memory = (control.memory(), treatment.memory())
        if self.form == "processes":
            self._planned_look(looks)

    def _sides(self, stack: ExitStack) -> tuple[Arm, Arm]:
        recipes = [self.against, (*self.against, self.change)]
        built: dict[int, Arm] = {}
        for position in self.lab.chance.sample(range(2), 2):
            arm = self.lab.open(recipes[position], self.form, fresh=self.lab.fresh(*recipes))
            built[position] = stack.enter_context(closing(arm))
        return built[0], built[1]

    def _rounds(self, looks: tuple[int, ...], setup_s: float) -> int:
        if self.form == "processes":
            return PAIRS_PER_SPAWN
        left = looks[-1] - len(self.pairs)
        return left if setup_s > DEAR_SETUP_S else min(left, max(looks[0], -(-looks[-1] // REBUILDS)))

    def _until(self, spawn: int, looks: tuple[int, ...]) -> Callable[[list[Round]], bool]:
        # Each spawn gets its part of the trial's seconds, so that a slow side cannot eat those of all others.
        part_ends = self.lab.clock() + (self.deadline - self.began) / FEWEST_SPAWNS

        def until(rounds: list[Round]) -> bool:
            self._take(rounds[-1], spawn)
            if self.form == "processes":
                return len(rounds) >= FEWEST_PAIRS_PER_SPAWN and self.lab.clock() > part_ends
            self._planned_look(looks)
            decided = self.last is not None and self.last.decision != "undecided"
            return decided or self._late()

        return until

    def _take(self, done: Round, spawn: int) -> None:
        control, treatment = done.turns
        seconds = (
            control.per_step / items_factor_of(self.against),
            treatment.per_step / items_factor_of((*self.against, self.change)),
        )
        self.pairs.append(Pair(*seconds, order="AB" if done.order[0] == 0 else "BA", spawn=spawn))
        self.rerun += done.rerun
        self.waiting[0] += control.waiting_share
        self.waiting[1] += treatment.waiting_share
        self.same_losses = self.same_losses and control.losses == treatment.losses
        self.compared += len(control.losses)

    def _planned_look(self, looks: tuple[int, ...]) -> None:
        if self.units in looks and len(self.pairs) not in self.looks:
            self._look()

    def _look(self) -> None:
        if len(self.pairs) in self.looks:
            return
        self.looks.append(len(self.pairs))
        alpha = look_error(tuple(self.looks), planned=self.planned, error=self.error)
        self.last = look(
            [pair.control for pair in self.pairs],
            [pair.treatment for pair in self.pairs],
            spawns=[pair.spawn for pair in self.pairs],
            form=self.form,
            least_gain=self.lab.line,
            alpha=alpha,
        )

    def written(self, trial: Trial) -> Trial:
        """The trial with all that was taken."""
        count = max(len(self.pairs), 1)
        parity: tuple[Parity, ...] = ()
        # One bit that differs is proof at once; that none does takes more updates than a quick trial may have had.
        if self.lab.paths > 1 and (self.compared >= PARITY_STEPS or not self.same_losses):
            parity = (
                Parity(
                    output=f"losses of {self.compared} updates",
                    worst=0.0 if self.same_losses else 1.0,
                    allowed=0.0 if trial.numerics == "same-bits" else 1.0,
                    measure="bits",
                ),
            )
        return replace(
            trial,
            control=_measurement([p.control for p in self.pairs], self.warmups[0], self.waiting[0] / count),
            treatment=_measurement([p.treatment for p in self.pairs], self.warmups[1], self.waiting[1] / count),
            order=tuple(pair.order for pair in self.pairs),
            spawns=tuple(pair.spawn for pair in self.pairs),
            looks=tuple(self.looks),
            rerun=self.rerun,
            steps_per_turn=self.steps,
            parity=parity,
            memory_control=self.memory[0] if self.memory else None,
            memory_treatment=self.memory[1] if self.memory else None,
            setup_s=max(self.setup_s, 0.0),
            checksums=self.checksums,
            planned_pairs=self.planned,
            noise=self.lab.noise.get(self.form),
        )


def _checked(lab: AnyLab, trial: Trial, last: Look | None) -> Trial:
    """Guards that a faster change must hold; looked at only where it is faster."""
    if last is None or last.decision != "keep":
        return trial
    plan = lab.plan
    found: list[Guard] = [_taken_back(lab, trial)]
    parity = trial.parity
    if lab.examines(trial):
        quality_parity, quality_guards = lab.quality(trial)
        parity = (*parity, *quality_parity)
        found += quality_guards
    saved = _middle(trial.control.samples) - _middle(trial.treatment.samples)
    # What buys memory with time never pays its set-up back in time, and need not.
    if trial.setup_s > 0 and (saved > 0 or plan.goal != "memory"):
        found.append(guards.break_even(trial.setup_s, saved, lab.updates, at_least=lab.updates_seen))
    if plan.memory_budget is not None and trial.memory_control and trial.memory_treatment:
        found.append(guards.memory(trial.memory_control, trial.memory_treatment, plan.memory_budget))
    return replace(trial, parity=parity, guards=(*trial.guards, *found))


TAKEN_BACK = "taken back"


def _taken_back(lab: AnyLab, trial: Trial) -> Guard:
    different = lab.not_undone(trial.change, against=trial.against)
    says = f"not as before: {different}" if different else "taken back, and every byte was as before"
    return Guard(name=TAKEN_BACK, holds=different is None, says=says)


def undone(trial: Trial) -> bool | None:
    """Whether taking the change back restored everything; None when it was not checked."""
    return next((guard.holds for guard in trial.guards if guard.name == TAKEN_BACK), None)


def _middle(samples: tuple[float, ...]) -> float:
    ordered = sorted(samples)
    return ordered[len(ordered) // 2] if ordered else 0.0


def _measurement(samples: object, warmup: object = (), waiting: float = 0.0) -> Measurement:
    return Measurement(
        quantity="running plus blocked time per step",
        unit="s",
        samples=tuple(samples),  # type: ignore[arg-type]
        warmup=tuple(warmup),  # type: ignore[arg-type]
        waiting_share=waiting,
    )


def noise_of(lab: AnyLab, *, recipe: tuple[Change, ...] = (), pairs: int = 16, budget_s: float = 10.0) -> float:
    """The noise of an A/A trial: the standard deviation of log ratios, the same recipe on both sides.

    Four pairs at least, then more until `budget_s` is spent. Raises ArmError.
    """
    form = lab.form(recipe)
    deadline = lab.clock() + budget_s
    with ExitStack() as stack:
        arms = [stack.enter_context(closing(lab.open(recipe, form))) for _ in range(2)]
        steps, _ = lab.warm(arms, form)
        rounds = race(
            arms,
            rounds=pairs,
            steps=steps,
            chance=random.Random(lab.plan.seed),
            waiting_limit=lab.plan.waiting_limit,
            until=lambda done: len(done) >= FEWEST_NOISE_PAIRS and lab.clock() > deadline,
            listener=lab.listener,
            doing="measuring the noise of this machine",
        )
    return robust_noise([done.seconds(0) for done in rounds], [done.seconds(1) for done in rounds])
