"""What is live during a deployment: the module, its exports, and the processes that hold them. Never stored."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from netdyno.errors import ArmError
from netdyno.progress import Event, Listener
from netdyno.records.deployment import Built, Candidate, Latency, Running, ShipPlan
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._base import Arrays
from netdyno.runtimes._nursery import Nursery
from netdyno.runtimes._process import Process
from netdyno.runtimes.eager import Eager
from netdyno.shipping.exports import Exports
from netdyno.shipping.subject import Subject, opened, real_rows
from netdyno.store.documents import Documents
from netdyno.verdicts import shipping as verdicts

# Real rows that bursts cycle through: the answers of some models depend on what they are given in time, too.
HELD = 64
LAST_WORDS = 1200  # characters
EAGER = runtimes.written(Eager())


@dataclass(kw_only=True)
class Journey:
    """One walk of `netdyno deploy`."""

    subject: Subject
    plan: ShipPlan
    shelf: Documents
    exports: Exports
    listener: Listener
    clock: Callable[[], float]
    began: float
    chance: random.Random
    package: Path | None
    held: Arrays
    answers: Arrays  # the module's own, to `held`
    eager: Running  # the threads that suit the module itself best
    prices: dict[str, float] = field(
        default_factory=dict
    )  # seconds that an export should take, by the candidate's label
    origins: dict[str, Subject] = field(default_factory=dict)
    smaller: dict[int, Arrays] = field(
        default_factory=dict
    )  # the module's answers to `held`, by the side of its images
    _nursery: Nursery | None = None
    _control: Process | None = None

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.plan.budget_s - (self.clock() - self.began)

    def says(self, doing: str) -> None:
        """Tell whoever listens; the total is the budget."""
        self.listener(Event(doing, self.clock() - self.began, self.plan.budget_s))

    def built(self, change: Change, origin: str = "") -> Built:
        """The export of a way to run it, or of what `origin` declares. Raises ArmError when it cannot be made."""
        subject, plan = self.source(origin), self.plan
        return self.exports.built(
            subject,
            change,
            batches=tuple(sorted({plan.rows, *plan.batches})),
            timeout_s=max(30.0, min(plan.timeout_s, self.left())),
        )

    def source(self, origin: str) -> Subject:
        """What is exported: the release itself, or what `origin` declares."""
        if not origin:
            return self.subject
        if origin not in self.origins:
            self.origins[origin] = opened(origin)
        return self.origins[origin]

    def standard(self, candidate: Candidate) -> Subject:
        """Whose answers a candidate's are compared with number by number: the module, on images of the candidate's resolution."""
        return self.subject if candidate.side is None else self.source(self.at(candidate.side))

    def at(self, side: int) -> str:
        """How the release at another resolution is found, also by another process."""
        return f"{self.subject.reference}@{side}"

    def expected(self, candidate: Candidate) -> Arrays:
        """The standard's answers to `held`."""
        if candidate.side is None:
            return self.answers
        if candidate.side not in self.smaller:
            self.smaller[candidate.side] = self.standard(candidate).answers(self.held)
        return self.smaller[candidate.side]

    def process(self, change: Change, running: Running, *, origin: str = "", fresh: bool = False) -> Process:
        """A process that holds an export; `fresh` from the interpreter up, for what memory and cold starts are measured in.

        Raises ArmError when it cannot be built or loaded.
        """
        built = self.built(change, origin)
        nursery = None
        if not fresh and runtimes.catalogue()[change.id].imports_torch:
            self._nursery = self._nursery or Nursery()
            nursery = self._nursery
        return Process(change, self.exports.path(built.key), running, self.subject.signature, nursery=nursery)

    def control(self) -> Process:
        """The module as it is, in eager PyTorch on one thread, in a process of its own that lives as long as the walk."""
        if self._control is None:
            self._control = self.process(EAGER, self.one_thread())
            self._control.hold(self.held)
        return self._control

    def one_thread(self) -> Running:
        """How everything is screened and raced: on one thread, whose own time can be told whatever the neighbours do."""
        return Running(threads=min(self.plan.threads or (1,)), batches=(self.plan.rows,))

    def latency(self, seconds: Sequence[float], *, cpu: float, foreign: float) -> Latency:
        """Calls of the plan's rows as a record."""
        percentiles = verdicts.percentiles(seconds, self.plan.objective, self.plan.level)
        return Latency(rows=self.plan.rows, samples=tuple(seconds), percentiles=percentiles, cpu_s=cpu, foreign=foreign)

    def tried(self, candidate: Candidate, work: Callable[[Candidate], Candidate]) -> Candidate:
        """What `work` makes of a candidate. What goes wrong is kept with its reason and ends nothing; its cost is added."""
        began = self.clock()
        try:
            found = work(candidate)
        except ArmError as error:
            words = (error.last_words or "")[-LAST_WORDS:] or None
            found = replace(candidate, failed=error.says, last_words=words)
        return replace(found, cost_s=candidate.cost_s + self.clock() - began)

    def close(self) -> None:
        """End the processes that outlive a step."""
        if self._control is not None:
            self._control.close()
        if self._nursery is not None:
            self._nursery.close()


def set_out(
    subject: Subject,
    plan: ShipPlan,
    *,
    shelf: Documents,
    package: Path | None,
    listener: Listener,
    clock: Callable[[], float],
) -> Journey:
    """A journey with real rows and the module's answers to them."""
    held = real_rows(subject, HELD)
    return Journey(
        subject=subject,
        plan=plan,
        shelf=shelf,
        exports=Exports(shelf.folder / "exports"),
        listener=listener,
        clock=clock,
        began=clock(),
        chance=random.Random(plan.seed),
        package=package,
        held=held,
        answers=subject.answers(held),
        eager=Running(threads=1, batches=(plan.rows,)),
    )
