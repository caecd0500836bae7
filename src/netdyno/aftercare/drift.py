"""Watches a stream of yes and no after the release, and raises when it says yes more often than it did before (ledger A-208).

An error, an odd row, a low confidence: whatever is counted offline is counted online. The test is sequential: it may be looked at after
every sample, for as long as the service runs, and says how seldom it is wrong.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from netdyno.records.measured import Interval
from netdyno.stats.shares import counted_share

# How much worse than before the stream might have become, as ratios of odds: the watch is quickest for these, and works between them.
WORSE = (1.25, 1.5, 2.0, 3.0, 6.0)


class Counted(NamedTuple):
    """So many hits in so many looks: errors among samples."""

    hits: int
    looks: int

    @property
    def share(self) -> float:
        """Hits for each look."""
        return self.hits / self.looks


class Raised(NamedTuple):
    """What a watch found: after how many samples, since when it is worse, and what the share has been since."""

    at: int
    since: int
    share: float
    usual: float
    says: str


@dataclass(kw_only=True)
class Watch:
    """Raises when the share of hits in a stream is above `usual`. A false alarm comes once in `patience` samples on average, or less often.

    The sum of likelihood ratios over all moments at which a change may have come (Shiryaev 1963, Roberts 1966), averaged over `WORSE`,
    is an e-detector (Shin, Ramdas and Rinaldo 2024): while the share is at most `usual`, its mean grows by one a sample at most, so that
    it takes `patience` samples on average at least until it reaches `patience`.
    """

    usual: float
    patience: float = 100_000.0
    _seen: int = field(default=0, repr=False)
    _hits: int = field(default=0, repr=False)
    _sums: list[float] = field(default_factory=list, repr=False)
    _changes: list["_Change"] = field(default_factory=list, repr=False)

    @classmethod
    def from_offline(
        cls, offline: Counted, *, margin: float = 0.0, patience: float = 100_000.0, level: float = 0.99
    ) -> "Watch":
        """A watch against what was counted offline: against the upper end of its interval, for offline is an estimate too, and `margin` above it."""
        return cls(usual=min(0.99, counted_share(*offline, level=level).high + margin), patience=patience)

    def __post_init__(self) -> None:
        if not 0 < self.usual < 1:
            raise ValueError(f"a usual share of {self.usual} leaves nothing to watch")
        # For every ratio of odds: the factors that a hit and a miss multiply the evidence with.
        self._factors = [_factors(self.usual, ratio) for ratio in WORSE]
        self.reset()

    def saw(self, hit: bool) -> Raised | None:
        """Tell it of one sample; gives what it found once it is sure. It then begins anew."""
        self._seen += 1
        self._hits += hit
        for at, (on_hit, on_miss) in enumerate(self._factors):
            factor = on_hit if hit else on_miss
            self._sums[at] = (self._sums[at] + 1) * factor
            self._changes[at] = self._changes[at].after(factor, self._seen, self._hits)
        if sum(self._sums) / len(self._sums) < self.patience:
            return None
        found = self._raised()
        self.reset()
        return found

    def follow(self, hits: Iterable[bool]) -> Raised | None:
        """Tell it of samples until it raises."""
        return next((found for hit in hits if (found := self.saw(hit)) is not None), None)

    def reset(self) -> None:
        """Begin anew: after an alarm, or after a new release."""
        self._seen = self._hits = 0
        self._sums = [0.0] * len(WORSE)
        self._changes = [_Change(0.0, 0, 0)] * len(WORSE)

    def _raised(self) -> Raised:
        since = max(self._changes, key=lambda one: one.evidence)
        looks = max(1, self._seen - since.at)
        share = (self._hits - since.hits) / looks
        says = (
            f"{share:.2%} of the last {looks} samples, where {self.usual:.2%} is usual: "
            f"raised after {self._seen} samples, a false alarm in {self.patience:,.0f}"
        )
        return Raised(self._seen, since.at, share, self.usual, says)


class _Change(NamedTuple):
    """The likeliest moment of a change so far: after which sample, how many hits there were, and how much speaks for it (Page 1954)."""

    evidence: float
    at: int
    hits: int

    def after(self, factor: float, seen: int, hits: int) -> "_Change":
        evidence = self.evidence + math.log(factor)
        return _Change(evidence, self.at, self.hits) if evidence > 0 else _Change(0.0, seen, hits)


def _factors(usual: float, ratio: float) -> tuple[float, float]:
    odds = ratio * usual / (1 - usual)
    worse = odds / (1 + odds)
    return worse / usual, (1 - worse) / (1 - usual)


def delay(usual: float, worse: float, *, patience: float = 100_000.0) -> float:
    """About how many samples it takes to see that a share has gone from `usual` to `worse`: what the watch is held to in its tests.

    The evidence grows by the divergence of the two a sample (Lorden 1971), and averaging over `WORSE` costs a constant.

    >>> round(delay(0.031, 0.057))
    1461
    """
    if worse <= usual:
        return math.inf
    growth = max(
        worse * math.log(on_hit) + (1 - worse) * math.log(on_miss)
        for on_hit, on_miss in (_factors(usual, ratio) for ratio in WORSE)
    )
    return math.log(patience * len(WORSE)) / growth if growth > 0 else math.inf


# ---------------------------------------------------------------- offline against online

Direction = Literal["better", "worse", "cannot tell"]


class Diverged(NamedTuple):
    """Whether two versions differ offline and online, and whether in opposite directions. None: one of them cannot be told."""

    offline: Interval
    online: Interval
    ways: tuple[Direction, Direction]
    ok: bool | None
    says: str


def diverged(offline: Sequence[Counted], online: Sequence[Counted], *, level: float = 0.95) -> Diverged:
    """Errors of the version before and the one now, offline and online. `ok` is False where offline got better and online worse.

    The interval of each difference is Newcombe's (1998, method 10). Both must be told apart from nothing for an alarm: a validation set that
    says "better" while the service gets worse measures something else than the service does.

    >>> diverged((Counted(80, 1000), Counted(50, 1000)), (Counted(310, 10_000), Counted(570, 10_000))).ok
    False
    """
    (offline_before, offline_now), (online_before, online_now) = offline, online
    changes = (_difference(offline_before, offline_now, level), _difference(online_before, online_now, level))
    ways = (_way(changes[0]), _way(changes[1]))
    # Either of these alone rules it out, whatever is not known of the other.
    ok = (
        True
        if ways[0] == "worse" or ways[1] == "better"
        else None
        if "cannot tell" in ways
        else ways != ("better", "worse")
    )
    says = (
        f"offline errors went from {offline_before.share:.2%} to {offline_now.share:.2%} ({ways[0]}), "
        f"online from {online_before.share:.2%} to {online_now.share:.2%} ({ways[1]})"
    )
    if ok is False:
        says += (
            ": what is validated is not what is served; look at who the samples of both are, and how they are prepared"
        )
    return Diverged(changes[0], changes[1], ways, ok, says)


def _way(change: Interval) -> Direction:
    return "worse" if change.low > 0 else "better" if change.high < 0 else "cannot tell"


def _difference(before: Counted, now: Counted, level: float) -> Interval:
    """The share now less the share before."""
    middle = now.share - before.share
    (low_b, high_b), (low_n, high_n) = _wilson(before, level), _wilson(now, level)
    low = middle - math.hypot(now.share - low_n, high_b - before.share)
    high = middle + math.hypot(high_n - now.share, before.share - low_b)
    return Interval(middle=middle, low=low, high=high, level=level)


def _wilson(counted: Counted, level: float) -> tuple[float, float]:
    from statistics import NormalDist

    z = NormalDist().inv_cdf((1 + level) / 2)
    share, looks = counted.share, counted.looks
    centre = (share + z * z / (2 * looks)) / (1 + z * z / looks)
    half = z * math.sqrt(share * (1 - share) / looks + (z / (2 * looks)) ** 2) / (1 + z * z / looks)
    return centre - half, centre + half
