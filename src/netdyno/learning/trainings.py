"""All runs of a search: each is made once, kept at once, and found again by whoever asks for the same."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup, catalogue
from netdyno.learning.run import Course, train
from netdyno.progress import Listener, silent
from netdyno.records.study import Run, Stage
from netdyno.records.trial import Change


class Trainer(Protocol):
    """What makes a run: `learning.run.train`, or a test's own."""

    def __call__(
        self,
        setup: Setup,
        *,
        seed: int,
        recipe: Sequence[Change],
        stage: Stage,
        knob: str,
        deadline: float | None = None,
        prune: Callable[[Course], bool] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Run:
        """One run under a recipe and a seed."""


class TimeIsUpError(Exception):
    """The budget of a stage is spent."""


@dataclass(kw_only=True)
class Trainings:
    """Makes runs and remembers them. `kept` is called with each new one before the next begins.

    A run is told apart by recipe, seed and updates. One that ran out of time, or was given up, is none to remember.
    """

    setup: Setup
    kept: Callable[[Run], None]
    runs: list[Run] = field(default_factory=list)
    trainer: Trainer = train
    clock: Callable[[], float] = time.perf_counter
    listener: Listener = silent
    deadline: float | None = None
    stage: Stage | None = None  # only its knobs may be moved while it is set
    base: tuple[Change, ...] = ()  # what is frozen in this stage
    spent: float = 0.0

    def run(
        self,
        recipe: Sequence[Change],
        seed: int,
        *,
        stage: Stage,
        knob: str,
        prune: Callable[[Course], bool] | None = None,
    ) -> Run:
        """That run, made now or earlier. Raises TimeIsUpError when there is no time for it, NetdynoError for a frozen knob."""
        wanted = tuple(recipe)
        if not knob or not stage:
            raise NetdynoError(
                "cannot make a run without its tags",
                because=f"its stage is `{stage}` and its knob `{knob}`",
                hint="say what the run is for, so that it can be found again",
            )
        self._refuse_frozen(wanted)
        known = self._known(wanted, seed)
        if known is not None:
            return known
        if self.deadline is not None and self.clock() + self.expected_s() > self.deadline:
            raise TimeIsUpError
        began = self.clock()
        made = self.trainer(
            self.setup, seed=seed, recipe=wanted, stage=stage, knob=knob, prune=prune, clock=self.clock,
            deadline=None if self.deadline is None else self.deadline + 2 * self.expected_s(),
        )  # fmt: skip
        self.spent += self.clock() - began
        self.runs.append(made)
        self.kept(made)
        return made

    def note(self, run: Run) -> None:
        """Keep what somebody else made with this budget: a walk through learning rates."""
        self.spent += run.seconds
        self.runs.append(run)
        self.kept(run)

    def scores(self, recipe: Sequence[Change], seeds: Sequence[int], *, stage: Stage, knob: str) -> dict[int, float]:
        """Scores of a recipe by seed; a run that failed has none."""
        found = ((seed, self.run(recipe, seed, stage=stage, knob=knob).score) for seed in seeds)
        return {seed: score for seed, score in found if score is not None}

    def known_scores(self, recipe: Sequence[Change], seeds: Collection[int] | None = None) -> dict[int, float]:
        """What is known of a recipe already, under those seeds where some are told."""
        wanted = tuple(recipe)
        return {
            run.seed: run.score
            for run in self.runs
            if run.recipe == wanted and run.score is not None and (seeds is None or run.seed in seeds)
        }

    def of(self, recipe: Sequence[Change]) -> tuple[Run, ...]:
        """All runs of a recipe that came to their end, or failed by themselves."""
        wanted = tuple(recipe)
        return tuple(run for run in self.runs if run.recipe == wanted and not _cut(run))

    def seconds_left(self) -> float | None:
        """Until the deadline; None where there is none."""
        return None if self.deadline is None else self.deadline - self.clock()

    def expected_s(self) -> float:
        """What one more run is expected to take: the mean of the last whole ones."""
        whole = [run.seconds for run in self.runs if run.score is not None][-10:]
        return sum(whole) / len(whole) if whole else 0.0

    def _known(self, recipe: tuple[Change, ...], seed: int) -> Run | None:
        for run in self.runs:
            if run.recipe == recipe and run.seed == seed and not _cut(run):
                return run
        return None

    def _refuse_frozen(self, recipe: tuple[Change, ...]) -> None:
        """One class of knob is moved at a time, the others are frozen (ledger A-162)."""
        if self.stage is None:
            return
        kinds = catalogue()
        moved = {change.id for change in (*recipe, *self.base) if (change in recipe) != (change in self.base)}
        for name in sorted(moved):
            other = kinds[name].stage if name in kinds else "unknown"
            if other != self.stage:
                raise NetdynoError(
                    f"cannot move `{name}` now",
                    because=f"it belongs to the stage `{other}`, and the stage `{self.stage}` is under way",
                    hint="a stage moves its own knobs and leaves the others as they are, so that a gain has one cause",
                )


def _cut(run: Run) -> bool:
    """Whether a run says nothing of its recipe, because it was not let to its end."""
    return run.failed is not None and run.failed.startswith(("the time was over", "given up"))
