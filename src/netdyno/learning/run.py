"""One training run under a recipe of knobs: the unit of every sweep."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.knobs._base import Setup, turned
from netdyno.measure.untouched import random_state
from netdyno.progress import Event, Listener, silent
from netdyno.records.study import Run, Stage
from netdyno.records.trial import Change
from netdyno.targets.feed import Feed
from netdyno.targets.place import place_of
from netdyno.targets.subject import Batch, target_of, to_device
from netdyno.targets.workload import (
    Loss,
    Workload,
    default_optimizer,
    holding_threads,
    plain_forward,
    seed_everything,
)
from netdyno.trials.quality import once, validation_feed

EVALUATIONS = 10
# A run that is no longer finite is over: asked so often, as on a device each question waits for it.
ASKED = 10
# A class that has more values than this is no class.
MOST_CLASSES = 1000

Course = list[tuple[int, float, float]]  # (updates so far, validation loss, validation score)


class Evaluation(NamedTuple):
    """Validation over all samples. `score`: the metric, higher is better; where there is none, minus the loss."""

    loss: float
    score: float
    classes: tuple[float, ...] = ()  # recall of each class


class StoppedError(Exception):
    """A run that ends before its last update; says why."""


def setup_of(workload: Workload, *, updates: int | None = None) -> Setup:
    """How the workload trains as it was written; `updates` of one run are its own unless told."""
    return Setup(
        workload=workload,
        model=workload.model,
        optimizer=lambda model: (workload.optimizer or default_optimizer)(model.parameters()),
        loss=Loss(workload.loss),
        forward=workload.forward or plain_forward,
        batch_size=workload.batch_size,
        updates=updates if updates is not None else workload.updates,
    )


def train(
    setup: Setup,
    *,
    seed: int,
    recipe: Sequence[Change] = (),
    stage: Stage,
    knob: str,
    listener: Listener = silent,
    evaluations: int = EVALUATIONS,
    deadline: float | None = None,
    prune: Callable[[Course], bool] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Run:
    """A training run under `recipe` and `seed`, and what it reached. What the user's code raises is told in `Run.failed`.

    One seed and recipe give the same weights to the bit, on one machine with the same number of threads. `deadline` is a
    time of `clock`; `prune` is asked after each evaluation whether the run is hopeless.
    """
    run, _ = trained(
        setup, seed=seed, recipe=recipe, stage=stage, knob=knob, listener=listener, evaluations=evaluations,
        deadline=deadline, prune=prune, clock=clock,
    )  # fmt: skip
    return run


def trained(
    setup: Setup,
    *,
    seed: int,
    recipe: Sequence[Change] = (),
    stage: Stage,
    knob: str,
    listener: Listener = silent,
    evaluations: int = EVALUATIONS,
    deadline: float | None = None,
    prune: Callable[[Course], bool] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Run, nn.Module | None]:
    """The same, with the trained module; None where it could not even be built."""
    began = clock()
    session: Session | None = None
    failed: str | None = None
    with random_state():
        try:
            setup = turned(recipe, setup)
            session = Session.begin(setup, seed=seed)
            session.run(evaluations, listener=listener, prune=prune, over=_over(deadline, clock))
        except StoppedError as why:
            failed = str(why)
        except Exception as error:
            failed = f"{type(error).__name__}: {error}{place_of(error)}"
    reached = session.reached() if session is not None and failed is None else None
    run = Run(
        stage=stage,
        knob=knob,
        recipe=tuple(recipe),
        seed=seed,
        updates=session.done if session is not None else 0,
        batch_size=setup.batch_size,
        score=reached.score if reached is not None else None,
        loss=reached.loss if reached is not None else None,
        train_loss=session.train_loss() if session is not None else None,
        classes=reached.classes if reached is not None else (),
        course=tuple(session.course) if session is not None else (),
        seconds=clock() - began,
        peak_bytes=session.peak_bytes() if session is not None else 0,
        state_bytes=state_bytes(session.optimizer) if session is not None else 0,
        failed=failed,
    )
    return run, session.model if session is not None else None


def _over(deadline: float | None, clock: Callable[[], float]) -> Callable[[], bool]:
    return lambda: deadline is not None and clock() > deadline


@dataclass(kw_only=True)
class Session:
    """A run that is under way. Live, never stored."""

    setup: Setup
    model: nn.Module
    optimizer: Any
    schedule: Any
    feed: Feed
    device: torch.device
    done: int = 0
    course: Course = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)  # since the last evaluation
    last_train_loss: float | None = None
    best: dict[str, Any] | None = None
    best_at: int = -1

    @classmethod
    def begin(cls, setup: Setup, *, seed: int) -> "Session":
        """Model, optimizer, schedule and data, built under `seed`. Raises what the user's code raises."""
        device = torch.device(setup.workload.device)
        data, _ = setup.workload.datasets()
        seed_everything(seed)
        model = setup.model().to(device).train()
        optimizer = setup.optimizer(model)
        schedule = setup.schedule(optimizer, setup.updates) if setup.schedule is not None else None
        feed = feed_of(setup, data, seed=seed)
        if feed.steps_per_epoch == 0:
            raise StoppedError(f"a batch of {setup.batch_size} is larger than the {feed.samples} training samples")
        seed_everything(seed)  # what building drew must not be felt by the order of samples
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        return cls(setup=setup, model=model, optimizer=optimizer, schedule=schedule, feed=feed, device=device)

    def run(
        self,
        evaluations: int,
        *,
        listener: Listener,
        prune: Callable[[Course], bool] | None,
        over: Callable[[], bool],
    ) -> None:
        """To the last update, or to where the run stops itself. Raises StoppedError where it came to nothing."""
        batches = self.feed.epochs()
        threads = self.setup.workload.threads
        try:
            with holding_threads(threads) if threads is not None else nullcontext():
                for until in rounds(self.setup.updates, evaluations):
                    self._train(batches, until, over)
                    self._evaluate()
                    listener(Event("training", self.done, self.setup.updates))
                    if prune is not None and until < self.setup.updates and prune(self.course):
                        raise StoppedError(f"given up after {self.done} updates: others were better by then")
                    if self.setup.stop is not None and self.setup.stop(self.course):
                        break
        finally:
            batches.close()  # type: ignore[attr-defined]
        if self.setup.best and self.best is not None:
            self.model.load_state_dict(self.best)

    def _train(self, batches: Iterator[Batch], until: int, over: Callable[[], bool]) -> None:
        self.model.train()
        while self.done < until:
            batch = next(batches, None)
            if batch is None:
                raise StoppedError(f"the data ended after {self.done} updates")
            self.losses.append(self.update(batch))
            self.done += 1
            if self.done % ASKED == 0:
                self._look()
                if over():
                    raise StoppedError(f"the time was over after {self.done} of {self.setup.updates} updates")

    def update(self, batch: Batch) -> Tensor:
        """One update on one batch; the loss before it."""
        setup = self.setup
        batch = to_device(self.device)(batch) if self.device.type != "cpu" else batch
        for mix in setup.mix:
            batch = mix(batch)

        def closure() -> Tensor:
            self.optimizer.zero_grad(set_to_none=True)
            loss = setup.loss(setup.forward(self.model, batch), batch)
            loss.backward()
            for call in setup.before_step:
                call(self.model, self.optimizer)
            return loss

        # Optimizers that search along a line call it several times; the others once.
        loss: Tensor = self.optimizer.step(closure)
        if self.schedule is not None and not _reads_validation(self.schedule):
            self.schedule.step()
        return loss.detach()

    def _look(self) -> None:
        if self.losses and not bool(torch.isfinite(self.losses[-1])):
            raise StoppedError(f"it diverged: the loss is {float(self.losses[-1])} after {self.done} updates")

    def _evaluate(self) -> None:
        self._look()
        found = evaluated(self.setup.workload, self.model, self.setup.forward, self.feed, self.device)
        if not math.isfinite(found.loss) or not math.isfinite(found.score):
            raise StoppedError(f"it diverged: the validation loss is {found.loss} after {self.done} updates")
        if self.losses:
            self.last_train_loss = float(torch.stack([loss.float().cpu() for loss in self.losses]).mean())
            self.losses.clear()
        self.evaluations.append(found)
        self.course.append((self.done, found.loss, found.score))
        # Chosen by the loss and judged by the score: a choice by the score would praise its own luck.
        if self.setup.best and (self.best_at < 0 or found.loss < self.evaluations[self.best_at].loss):
            self.best_at = len(self.evaluations) - 1
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        if self.schedule is not None and _reads_validation(self.schedule):
            self.schedule.step(found.loss)

    def reached(self) -> Evaluation | None:
        """The last evaluation, or that of the lowest loss where its weights are given back."""
        if not self.evaluations:
            return None
        return self.evaluations[self.best_at if self.setup.best and self.best_at >= 0 else -1]

    def train_loss(self) -> float | None:
        """The mean training loss of the last round that was over."""
        return self.last_train_loss

    def peak_bytes(self) -> int:
        """The most that tensors took on a device; 0 on a CPU, where nobody counts it."""
        return int(torch.cuda.max_memory_allocated(self.device)) if self.device.type == "cuda" else 0


def rounds(updates: int, evaluations: int) -> tuple[int, ...]:
    """After which updates one evaluates: evenly, and after the last.

    >>> rounds(10, 4), rounds(3, 10)
    ((2, 5, 8, 10), (1, 2, 3))
    """
    count = max(1, min(evaluations, updates))
    return tuple(dict.fromkeys(max(1, round(updates * (at + 1) / count)) for at in range(count)))


def feed_of(setup: Setup, data: Any, *, seed: int) -> Feed:
    """The data path of a run: that of the workload, with what the setup says otherwise."""
    feed = replace(setup.workload.feed(data, seed=seed), batch_size=setup.batch_size)
    if not setup.augment:
        feed = replace(feed, augment=None, batch_augment=None)
    if setup.augment_with is not None:
        feed = replace(feed, augment=setup.augment_with, batch_augment=None)
    if setup.sampler is not None:
        feed = replace(feed, sampler=setup.sampler, shuffle=False)
    return feed


@torch.no_grad()
def evaluated(
    workload: Workload, model: nn.Module, forward: Callable[[nn.Module, Batch], Any], feed: Feed, device: torch.device
) -> Evaluation:
    """The whole validation set by the workload's own loss and metric; the random state is left as it was."""
    _, data = workload.datasets()
    judge, place = Loss(workload.loss), to_device(device)
    tally = Tally()
    with random_state(), evaluating(model):
        for batch in once(validation_feed(feed, data)):
            placed = place(batch)
            output = forward(model, placed)
            target = target_of(placed)
            count = _count(target)
            tally.loss += float(judge(output, placed)) * count
            tally.samples += count
            score = workload.score(output, target)
            if score is not None:
                tally.score += score * count
                tally.scored += count
            tally.see(output, target)
    return tally.evaluation()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every module in evaluation, and afterwards each in the mode in which it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@dataclass
class Tally:
    """Sums over the batches of a validation pass."""

    loss: float = 0.0
    score: float = 0.0
    samples: int = 0
    scored: int = 0
    hits: dict[int, int] = field(default_factory=dict)
    there: dict[int, int] = field(default_factory=dict)

    def see(self, output: Any, target: Any) -> None:
        """Count hits of each class, where there are classes."""
        if not isinstance(output, Tensor) or not isinstance(target, Tensor) or target.is_floating_point():
            return
        if output.dim() != 2 or target.dim() != 1 or output.shape[1] > MOST_CLASSES:
            return
        right = output.argmax(1) == target
        classes = output.shape[1]
        for kind, count in enumerate(torch.bincount(target.clamp(0, classes - 1), minlength=classes).tolist()):
            self.there[kind] = self.there.get(kind, 0) + count
        for kind, count in enumerate(torch.bincount(target[right], minlength=classes).tolist()[:classes]):
            self.hits[kind] = self.hits.get(kind, 0) + count

    def evaluation(self) -> Evaluation:
        """Means over samples. Raises StoppedError where there were none."""
        if not self.samples:
            raise StoppedError("there is no validation sample")
        loss = self.loss / self.samples
        recall = tuple(self.hits.get(kind, 0) / count for kind, count in sorted(self.there.items()) if count)
        return Evaluation(loss, self.score / self.scored if self.scored else -loss, recall)


def state_bytes(optimizer: Any) -> int:
    """Bytes of the tensors that an optimizer keeps (ledger A-121), counters of steps left out."""
    states = getattr(optimizer, "state", {}).values()
    values = [value for state in states if isinstance(state, dict) for value in state.values()]
    return sum(value.nbytes for value in values if isinstance(value, Tensor) and value.numel() > 1)


def _reads_validation(schedule: Any) -> bool:
    return isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau)


def _count(target: Any) -> int:
    return len(target) if isinstance(target, Tensor) and target.dim() else 1
