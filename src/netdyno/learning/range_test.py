"""The learning-rate range test: a rate that grows with every update, and what its loss says of the rate to train with.

The curve only makes a first guess. Its whole length is some two hundred updates from fresh weights, and the rate that learns fastest there is not
always the one that has learned most at the end: `proven` therefore trains with the guess and its neighbours.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Any

import msgspec
import torch

from netdyno.errors import NetdynoError
from netdyno.knobs._base import Setup
from netdyno.knobs._optimizers import built, rates
from netdyno.learning.run import Session, StoppedError
from netdyno.measure.untouched import random_state, untouched
from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Interval
from netdyno.records.study import Curve
from netdyno.stats.spread import t_interval
from netdyno.targets.place import place_of
from netdyno.targets.subject import Batch, Subject, to_device

LOWEST, GROWTH, HIGHEST = 1e-7, 1.1, 10.0
# The mean of some twenty losses: steps of 1.1 go a factor of 6 in that time.
SMOOTHING = 0.9
# Four times the lowest loss so far is over the edge, whatever noise the batches have.
DIVERGED = 4.0
# In the first quarter of a walk (to some 1e-5) nothing moves: these losses show the noise of batches alone.
QUIET = 0.25
# A mean of twenty losses wanders by a quarter of their noise; four times that is no chance, though a hundred places are looked at.
A_DESCENT = 1.0
# A line through so many updates to either side: with steps of 1.1 a decade is twenty-four, and falls of a loss are about as wide.
HALF_DECADE = 12
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranged:
    """One walk through the rates. `steepest` is where the smoothed loss falls fastest over the logarithm of the rate.

    None where nothing falls beyond the noise of batches. `lowest` is where the loss is least, for comparison: it is already too high to train with.
    """

    seed: int
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    steepest: float | None = None
    lowest: float | None = None
    diverged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeTest:
    """Walks under several seeds. `suggestion` is the rate of the first group, `factor` what all groups are multiplied by to get there.

    None where at least half of the walks show no descent: it cannot be told.
    """

    walks: tuple[Ranged, ...]
    suggestion: Interval | None
    factor: float | None
    says: str
    curve: Curve | None = None


def range_test(
    setup: Setup,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    lowest: float = LOWEST,
    growth: float = GROWTH,
    highest: float = HIGHEST,
    accumulate: int = 1,
    level: float = LEVEL,
    listener: Listener = silent,
) -> RangeTest:
    """A walk under each seed, from fresh weights. The global random state is left as it was.

    Raises NetdynoError for what the user's code raises, and where every rate is 0.
    """
    walks = []
    for done, seed in enumerate(seeds):
        listener(Event("testing the range of learning rates", done, len(seeds)))
        with random_state(), _told():
            session = Session.begin(setup, seed=seed)
            walks.append(
                walked(session, seed=seed, lowest=lowest, growth=growth, highest=highest, accumulate=accumulate)
            )
    return concluded(walks, base=first_rate(built(setup)), level=level)


def walked(
    session: Session,
    *,
    seed: int = 0,
    lowest: float = LOWEST,
    growth: float = GROWTH,
    highest: float = HIGHEST,
    accumulate: int = 1,
) -> Ranged:
    """One walk on a session that is under way; afterwards model, optimizer, statistics and random state are as before, to the bit."""
    base = rates(session.optimizer)
    first = first_rate(session.optimizer)
    course, losses, diverged = steps(lowest, growth, highest), [], False
    with untouched(_subject(session)):
        session.model.train()
        batches = session.feed.epochs()
        try:
            for rate in course:
                for group, own in zip(session.optimizer.param_groups, base, strict=True):
                    group["lr"] = rate * own / first
                losses.append(_update(session, batches, accumulate))
                if _over_the_edge(losses):
                    diverged = True
                    break
        finally:
            batches.close()  # type: ignore[attr-defined]
    return read_off(course[: len(losses)], losses, seed=seed, diverged=diverged)


def steps(lowest: float = LOWEST, growth: float = GROWTH, highest: float = HIGHEST) -> tuple[float, ...]:
    """The rates of a walk (ledger A-140).

    >>> len(steps(highest=1e-2)) - 1, len(steps(highest=1.0)) - 1
    (121, 170)
    """
    count = math.ceil(math.log(highest / lowest) / math.log(growth) - 1e-9)
    return tuple(lowest * growth**at for at in range(count + 1))


def read_off(course: Sequence[float], losses: Sequence[float], *, seed: int = 0, diverged: bool = False) -> Ranged:
    """What the losses of a walk say. Pure."""
    finite = next((at for at, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
    diverged = diverged or finite < len(losses)
    course, losses = course[:finite], losses[:finite]
    smooth = smoothed(losses)
    blank = Ranged(seed=seed, rates=tuple(course), losses=tuple(losses), smoothed=tuple(smooth), diverged=diverged)
    quiet = max(3, round(QUIET * len(losses)))
    if len(losses) <= quiet + 3:
        return blank
    least = min(range(len(smooth)), key=smooth.__getitem__)
    level, noise = fmean(losses[:quiet]), stdev(losses[:quiet])
    # Rounding alone makes the losses of one and the same batch differ.
    if level - smooth[least] <= max(A_DESCENT * noise, 1e-3 * abs(level)) or least <= quiet // 2:
        return blank
    # What lies beyond the lowest point must not be in it; a running mean, which lags, would shift the place.
    steepest = _steepest(losses[: least + 1])
    return replace(blank, steepest=course[steepest], lowest=course[least])


def smoothed(losses: Sequence[float], weight: float = SMOOTHING) -> list[float]:
    """A running mean whose start is corrected for its having begun at nothing.

    >>> smoothed([2.0, 2.0, 2.0])
    [2.0, 2.0, 2.0]
    """
    found, mean = [], 0.0
    for at, loss in enumerate(losses):
        mean = weight * mean + (1 - weight) * loss
        found.append(round(mean / (1 - weight ** (at + 1)), 12))
    return found


def _steepest(losses: Sequence[float]) -> int:
    """Where a straight line through the losses about a place falls fastest."""
    half = min(HALF_DECADE, (len(losses) - 1) // 4)
    weights = range(-half, half + 1)

    def slope(at: int) -> float:
        return sum(weight * loss for weight, loss in zip(weights, losses[at - half : at + half + 1], strict=True))

    return min(range(half, len(losses) - half), key=slope)


def concluded(walks: Sequence[Ranged], *, base: float, level: float = LEVEL) -> RangeTest:
    """What several walks say together. Pure."""
    told = [math.log(walk.steepest) for walk in walks if walk.steepest is not None]
    curve = _curve(walks)
    if len(told) * 2 <= len(walks):
        no = len(walks) - len(told)
        says = f"cannot tell: in {no} of {len(walks)} walks no loss falls beyond the noise between batches"
        return RangeTest(walks=tuple(walks), suggestion=None, factor=None, says=says, curve=curve)
    logs = t_interval(told, level, unbounded=math.inf)
    # One seed tells nothing of its range: it reaches over all rates that were tried.
    least, most = (math.log(chosen(chosen(walk.rates) for walk in walks)) for chosen in (min, max))
    middle, low, high = (math.exp(min(most, max(least, end))) for end in (logs.middle, logs.low, logs.high))
    found = Interval(middle=middle, low=low, high=high, level=level)
    ranged = (
        f" ({low:.2g} to {high:.2g} over {len(told)} seeds)" if len(told) > 1 else " (one seed: its range is not known)"
    )
    if curve is not None:
        curve = msgspec.structs.replace(curve, marks={**curve.marks, "suggestion": middle})
    return RangeTest(
        walks=tuple(walks), suggestion=found, factor=middle / base,
        says=f"the loss falls fastest at {middle:.2g}{ranged}", curve=curve,
    )  # fmt: skip


def first_rate(optimizer: Any) -> float:
    """The rate by which the others are measured: that of the first group that has one. Raises NetdynoError where all are 0."""
    found = next((rate for rate in rates(optimizer) if rate > 0), None)
    if found is None:
        raise NetdynoError(
            "cannot walk through learning rates",
            because="every learning rate is 0, and no other can be put in proportion to it",
            hint="build the optimizer with a rate above 0, whichever",
        )
    return found


def _curve(walks: Sequence[Ranged]) -> Curve | None:
    # Walks diverge at different places, and are drawn as far as all of them go.
    length = min((len(walk.rates) for walk in walks), default=0)
    if not length:
        return None
    lowest = [walk.lowest for walk in walks if walk.lowest is not None]
    return Curve(
        name="learning-rate range", x_name="learning rate", y_name="smoothed loss", x=walks[0].rates[:length], log_x=True,
        lines={f"seed {walk.seed}": walk.smoothed[:length] for walk in walks},
        marks={"lowest loss": math.exp(fmean(math.log(rate) for rate in lowest))} if lowest else {},
    )  # fmt: skip


@contextmanager
def _told() -> Iterator[None]:
    """What the user's code raises, as an error that can be read."""
    try:
        yield
    except NetdynoError:
        raise
    except Exception as error:
        said = str(error) if isinstance(error, StoppedError) else f"{type(error).__name__}: {error}{place_of(error)}"
        raise NetdynoError(
            "cannot walk through learning rates", because=said, hint="`netdyno doctor` says what is wrong with a target"
        ) from error


def _subject(session: Session) -> Subject:
    return Subject(
        model=session.model, optimizer=session.optimizer, feed=session.feed, forward=session.setup.forward,
        loss=session.setup.loss, device=session.device,
    )  # fmt: skip


def _over_the_edge(losses: Sequence[float]) -> bool:
    if not math.isfinite(losses[-1]):
        return True
    smooth = smoothed(losses)
    # Losses may be below 0 (likelihoods), and four times such a one is lower still: the edge is measured from the first.
    drop = smooth[0] - min(smooth)
    return smooth[-1] > smooth[0] + max(DIVERGED * drop, (DIVERGED - 1) * abs(smooth[0]))


def _update(session: Session, batches: Iterator[Batch], accumulate: int) -> float:
    """One update on `accumulate` batches; their mean loss before it."""
    setup, place = session.setup, to_device(session.device)
    drawn = [place(batch) for batch in _taken(batches, accumulate)]
    for mix in setup.mix:
        drawn = [mix(batch) for batch in drawn]

    def closure() -> torch.Tensor:
        session.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=session.device)
        for batch in drawn:
            loss = setup.loss(setup.forward(session.model, batch), batch) / len(drawn)
            loss.backward()
            total = total + loss.detach()
        for call in setup.before_step:
            call(session.model, session.optimizer)
        return total

    return float(session.optimizer.step(closure))


def _taken(batches: Iterator[Batch], count: int) -> list[Batch]:
    found = [batch for _, batch in zip(range(count), batches, strict=False)]
    if not found:
        raise StoppedError("the data ended before the range of rates was walked")
    return found
