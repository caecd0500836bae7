"""What a trained model answers, what its answers cost those who pay for mistakes, and how long one takes."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup, turned
from netdyno.learning.run import evaluating, feed_of, trained
from netdyno.measure.untouched import random_state
from netdyno.records.trial import Change
from netdyno.targets.subject import target_of, to_device
from netdyno.targets.workload import seed_everything
from netdyno.trials.quality import once, validation_feed
from netdyno.verdicts import worth

# Answers that warm up, and answers that are timed: their median leaves out the hiccups of a machine.
WARM, TIMED = 5, 30


class Priced(NamedTuple):
    """What an answer is worth on average (minus its cost), and the share that goes to a person's review."""

    value: float
    queue: float


def priced(
    setup: Setup,
    recipe: Sequence[Change],
    seed: int,
    *,
    costs: Sequence[Sequence[float]],
    review: float | None,
) -> Priced:
    """Train under that recipe and seed, and weigh the answers on the validation samples. Raises NetdynoError where there are no classes."""
    given, probabilities = answered(setup, recipe, seed)
    if not given or len(probabilities[0]) != len(costs):
        raise NetdynoError(
            f"cannot weigh the answers of `{setup.workload.name}`",
            because=f"it has {len(probabilities[0]) if given else 0} classes, and costs are given for {len(costs)}",
            hint="a cost matrix has a row for each true class and a column for each answer",
        )
    if review is not None:
        gate = worth.with_review(given, probabilities, costs, review=review)
        return Priced(-gate.cost, gate.queue)
    said = [max(range(len(row)), key=row.__getitem__) for row in probabilities]
    return Priced(-worth.cost(worth.confusion(given, said, len(costs)), costs), 0.0)


@torch.no_grad()
def answered(setup: Setup, recipe: Sequence[Change], seed: int) -> tuple[list[int], list[list[float]]]:
    """True classes and probabilities of the validation samples; nothing where the model has no classes or does not train."""
    with torch.enable_grad():
        _, model = trained(setup, seed=seed, recipe=recipe, stage="deploy", knob="worth")
    if model is None:
        return [], []
    turned_setup, workload = turned(recipe, setup), setup.workload
    train, data = workload.datasets()
    place, given, probabilities = to_device(torch.device(workload.device)), [], []
    with random_state(), evaluating(model):
        for batch in once(validation_feed(feed_of(turned_setup, train, seed=seed), data)):
            output, target = turned_setup.forward(model, place(batch)), target_of(batch)
            if not isinstance(output, Tensor) or output.dim() != 2 or target.dim() != 1 or target.is_floating_point():
                return [], []
            given += target.tolist()
            probabilities += output.float().softmax(1).tolist()
    return given, probabilities


@torch.no_grad()
def latency_s(setup: Setup, recipe: Sequence[Change], *, clock: Callable[[], float]) -> float:
    """Seconds of one answer to one sample: the median of several, of a model that nobody trained, as weights don't change it."""
    with random_state():
        seed_everything(0)
        made, workload = turned(recipe, setup), setup.workload
        device = torch.device(workload.device)
        model = made.model().to(device)
        train, data = workload.datasets()
        batch = next(iter(once(validation_feed(feed_of(made, train, seed=0), data))))
        one = to_device(device)(tuple(part[:1] for part in batch))
        with evaluating(model):
            return median([_timed(made, model, one, clock) for _ in range(WARM + TIMED)][WARM:])


def _timed(made: Setup, model: torch.nn.Module, one: tuple[Tensor, ...], clock: Callable[[], float]) -> float:
    began = clock()
    made.forward(model, one)
    if one[0].is_cuda:
        torch.cuda.synchronize()
    return clock() - began
