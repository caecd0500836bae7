"""A suggested learning rate, proven by training: the rate that a curve names against its neighbours."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from netdyno.knobs._base import Setup
from netdyno.knobs._optimizers import built
from netdyno.learning.range_test import RangeTest, first_rate
from netdyno.learning.run import train
from netdyno.progress import Event, Listener, silent
from netdyno.records.study import Run
from netdyno.records.trial import Change
from netdyno.stats.spread import t_interval

# Half a decade: nearer neighbours are seldom told apart, and farther ones may leave the best between them.
STRIDE = 3.0
# The curve is wrong by more than two decades only where it is no curve at all.
MOST_STRIDES = 5
# The best of five by two or three noisy scores is often the second or third: those three train again. In a simulation of smooth hills and
# of hills with a cliff that lost a tenth less than as many seeds for all five, and at a cliff a quarter less than smoothing over neighbours.
FINALISTS = 3
LEVEL = 0.95

Trained = Callable[[tuple[Change, ...], int], Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """`rate` trained best. `tried` are the scores by rate and seed; `alike` the rates that cannot be told from it, itself included.

    The scores chose the rate, and flatter it: who wants to know what it is worth trains it on fresh seeds.
    """

    rate: float
    factor: float
    tried: dict[float, dict[int, float]]
    alike: tuple[float, ...]
    says: str


def proven(
    setup: Setup,
    test: RangeTest,
    *,
    seeds: Sequence[int] = (1, 2, 3),
    more: Sequence[int] = (4, 5, 6),
    also: Sequence[float] = (),
    trained: Trained | None = None,
    listener: Listener = silent,
    level: float = LEVEL,
) -> Proven | None:
    """Trains with the suggestion and with a third and three times of it, and climbs on while the best lies at an end.

    Without a suggestion it begins at the rate that stands; rates in `also` are among those at the beginning. Then half a stride to
    both sides, and the three best on the seeds `more` too. None where no rate trains to its end.
    """
    base = first_rate(built(setup))
    start = test.suggestion.middle if test.suggestion is not None else base
    race = _Race(setup=setup, base=base, seeds=seeds, trained=trained or _train(setup), listener=listener)
    for rate in (start, start / STRIDE, start * STRIDE, *also):
        race.run(rate)
    for _ in range(MOST_STRIDES):
        best, rates = race.best(), sorted(race.tried)
        if best is None:
            race.run(rates[0] / STRIDE)  # nothing trains: it can only be too high
        elif best in (rates[0], rates[-1]):
            race.run(best / STRIDE if best == rates[0] else best * STRIDE)
        else:
            break
    best = race.best()
    if best is None:
        return None
    for rate in (best / math.sqrt(STRIDE), best * math.sqrt(STRIDE)):
        race.run(rate)
    for rate in race.first(FINALISTS):
        race.run(rate, more)
    return race.concluded(level)


@dataclass(kw_only=True)
class _Race:
    setup: Setup
    base: float
    seeds: Sequence[int]
    trained: Trained
    listener: Listener
    tried: dict[float, dict[int, float]] = field(default_factory=dict)
    losses: dict[float, list[float]] = field(default_factory=dict)
    asked: dict[float, int] = field(default_factory=dict)  # on how many seeds

    def run(self, rate: float, seeds: Sequence[int] | None = None) -> None:
        """That rate on `seeds`, and on the seeds of all where none are told."""
        rate = float(f"{rate:.3g}")
        self.listener(Event(f"training at {rate:.2g}", len(self.tried), MOST_STRIDES + 5))
        recipe = (Change(id="learning-rate", settings={"factor": self.factor(rate)}),)
        runs = [self.trained(recipe, seed) for seed in (self.seeds if seeds is None else seeds)]
        self.tried.setdefault(rate, {}).update({run.seed: run.score for run in runs if run.score is not None})
        self.asked[rate] = self.asked.get(rate, 0) + len(runs)
        self.losses.setdefault(rate, []).extend(run.loss if run.loss is not None else math.inf for run in runs)

    def factor(self, rate: float) -> float:
        """What the rate that stands is multiplied by."""
        return float(f"{rate / self.base:.4g}")

    def first(self, count: int) -> list[float]:
        """The highest mean scores first; equal ones by their loss. A rate under which a seed failed is none to suggest."""
        whole = [rate for rate, scores in self.tried.items() if len(scores) == self.asked[rate]]
        return sorted(whole, key=lambda rate: (-fmean(self.tried[rate].values()), fmean(self.losses[rate])))[:count]

    def best(self) -> float | None:
        """The first of those that were asked on most seeds."""
        most = max((self.asked[rate] for rate in self.first(len(self.asked))), default=0)
        return next((rate for rate in self.first(len(self.asked)) if self.asked[rate] == most), None)

    def concluded(self, level: float) -> Proven:
        rate = self.best()
        assert rate is not None
        alike = tuple(each for each in sorted(self.tried) if each == rate or self._alike(each, rate, level))
        says = f"{rate:.2g} trains best of {len(self.tried)} rates over {self.asked[rate]} seeds"
        if len(alike) > 1:
            says += f"; from {alike[0]:.2g} to {alike[-1]:.2g} some cannot be told from it"
        return Proven(rate=rate, factor=self.factor(rate), tried=dict(self.tried), alike=alike, says=says)

    def _alike(self, one: float, best: float, level: float) -> bool:
        """Whether the difference may be noise: a paired interval reaches 0."""
        pairs = [self.tried[best][seed] - score for seed, score in self.tried[one].items()]
        whole = len(pairs) == self.asked[one] > 0
        return whole and t_interval(pairs, level, unbounded=math.inf).low <= 0


def _train(setup: Setup) -> Trained:
    return lambda recipe, seed: train(setup, seed=seed, recipe=recipe, stage="optim", knob="learning-rate")
