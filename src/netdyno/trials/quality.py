"""Short training runs that show what a change does to learning: same seeds, same data, validation in rounds."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from netdyno.interventions._base import applied
from netdyno.measure.step import Stepper, evaluating
from netdyno.measure.stopwatch import Stopwatch
from netdyno.measure.untouched import random_state
from netdyno.progress import Event, Listener, silent
from netdyno.records.trial import Change, Trajectories
from netdyno.targets.feed import Feed
from netdyno.targets.subject import Subject
from netdyno.targets.workload import Workload, seed_everything

SEEDS = 3  # the fewest that give a spread between seeds; more are the budget's business
MOST_ROUNDS = 10
MOST_VALIDATION = 1024  # samples: the standard error of a loss falls with the root, its cost with the count


class Course(NamedTuple):
    """How long a quality run is: `rounds` of `steps` updates, each followed by a validation pass."""

    seeds: tuple[int, ...]
    rounds: int
    steps: int
    validation: int


def course(*, step_s: float, budget_s: float, sides: int, steps_per_epoch: int | None, seed: int = 0) -> Course:
    """The longest course that `sides` arms can run in `budget_s` seconds, at most ten epochs each.

    A validation pass is counted as one third of the steps that it covers.
    """
    steps_each = max(SEEDS * 4, int(budget_s / max(step_s, 1e-6) / sides / SEEDS))
    epoch = steps_per_epoch or 100
    rounds = min(MOST_ROUNDS, max(4, steps_each // 10))
    steps = max(1, min(epoch, int(steps_each / rounds / 1.3)))
    return Course(tuple(range(seed + 1, seed + 1 + SEEDS)), rounds, steps, MOST_VALIDATION)


def trajectories(
    workload: Workload,
    recipe: tuple[Change, ...],
    course: Course,
    *,
    nudge: int = 0,
    listener: Listener = silent,
    doing: str = "checking what it does to learning",
) -> Trajectories:
    """One training run per seed. `nudge` other than 0 moves every initial weight by one unit in the last place:
    a control arm in which nothing differs but rounding.

    A run whose loss is no longer finite ends there; what it reached is kept (the record refuses NaN, so
    the series is cut, and a short series says it all).
    """
    train: list[tuple[float, ...]] = []
    val: list[tuple[float, ...]] = []
    metrics: list[tuple[float, ...]] = []
    for done, seed in enumerate(course.seeds):
        listener(Event(doing, done, len(course.seeds)))
        subject = workload.fresh(seed)
        if nudge:
            _nudge(subject, nudge)
        with applied(recipe, subject) as changed:
            losses, validation, scores = _run(workload, changed, course, seed)
        train.append(tuple(losses))
        val.append(tuple(validation))
        metrics.append(tuple(scores))
    return Trajectories(
        seeds=course.seeds,
        train_losses=tuple(train),
        val_losses=tuple(val),
        val_metrics=tuple(metrics) if all(metrics) else (),
    )


def _run(
    workload: Workload, subject: Subject, course: Course, seed: int
) -> tuple[list[float], list[float], list[float]]:
    losses: list[float] = []
    validation: list[float] = []
    scores: list[float] = []
    seed_everything(seed)  # the draws of dropout and augmentation, alike for every arm
    stepper = Stepper(subject, Stopwatch())
    try:
        for _ in range(course.rounds):
            taken = stepper.take(course.steps).losses
            losses += [loss for loss in taken if math.isfinite(loss)]
            if len(losses) % course.steps or not math.isfinite(taken[-1]):
                break
            with random_state():
                loss, score = evaluate(workload, subject, limit=course.validation)
            if not math.isfinite(loss):
                break
            validation.append(loss)
            if score is not None:
                scores.append(score)
    finally:
        stepper.close()
    return losses, validation, scores


def evaluate(workload: Workload, subject: Subject, *, limit: int = MOST_VALIDATION) -> tuple[float, float | None]:
    """Mean validation loss, and the mean metric where there is one, over the first `limit` samples."""
    _, dataset = workload.datasets()
    feed = validation_feed(subject.feed, dataset)
    losses = 0.0
    scores = 0.0
    scored = 0
    seen = 0
    with evaluating(subject):
        for batch in once(feed):
            placed = subject.placed(batch)
            count = len(placed[-1])
            output = subject.forward(subject.model, placed)
            losses += float(subject.loss(output, placed)) * count
            score = workload.score(output, placed[-1])
            if score is not None:
                scores += score * count
                scored += count
            seen += count
            if seen >= limit:
                break
    return losses / max(seen, 1), scores / scored if scored else None


def validation_feed(feed: Feed, dataset: Any) -> Feed:
    """The data path of validation: in order, whole, in this process."""
    return replace(feed.evaluation(), dataset=dataset, workers=0, prefetch_factor=None, persistent_workers=False)


def once(feed: Feed) -> Any:
    """The batches of one epoch."""
    count = feed.steps_per_epoch
    batches = feed.epochs()
    try:
        if count is None:
            yield from batches
        else:
            for _ in range(count):
                yield next(batches)
    finally:
        batches.close()  # type: ignore[attr-defined]


def _nudge(subject: Subject, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in subject.model.parameters():
            if parameter.is_floating_point():
                up = torch.rand(parameter.shape, generator=generator).to(parameter.device) < 0.5
                limit = torch.where(up, math.inf, -math.inf).to(parameter.dtype)
                parameter.copy_(torch.nextafter(parameter, limit))
