"""A validation set that speaks for the mix of use: weights, or a draw, so that domains have the shares of traffic (ledger A-088)."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from netdyno.errors import NetdynoError
from netdyno.records.measured import Interval


def weights(domains: Sequence[Hashable], mix: Mapping[Hashable, float]) -> tuple[float, ...]:
    """One weight per sample, of mean 1, under which each domain has its share of the mix.

    >>> weights(["A", "A", "A", "B"], {"A": 0.3, "B": 0.7})
    (0.4, 0.4, 0.4, 2.8)
    """
    counts = Counter(domains)
    shares = _shares(counts, mix)
    by_domain = {domain: shares[domain] * len(domains) / count for domain, count in counts.items()}
    return tuple(round(by_domain[domain], 12) for domain in domains)


def resampled(domains: Sequence[Hashable], mix: Mapping[Hashable, float], *, seed: int = 0) -> tuple[int, ...]:
    """Indices of the largest set with the shares of the mix that needs no sample twice."""
    counts = Counter(domains)
    shares = _shares(counts, mix)
    size = min(counts[domain] / share for domain, share in shares.items() if share > 0)
    chance = np.random.default_rng(seed)
    places = {domain: [at for at, one in enumerate(domains) if one == domain] for domain in counts}
    # A hair above the whole number, so that 0.7 of 100 is 70.
    drawn = [
        chance.choice(places[domain], math.floor(size * share + 1e-9), replace=False)
        for domain, share in shares.items()
    ]
    return tuple(int(at) for at in np.sort(np.concatenate(drawn)))


def weighted_metric(
    values: Sequence[float], domains: Sequence[Hashable], mix: Mapping[Hashable, float], *, level: float = 0.95
) -> Interval:
    """The mean of a value per sample (1 where the answer is right) in the mix of use, with its interval.

    Domains are strata of known shares: the variance of the sum is that of each domain's mean, times its share squared.
    """
    shares = _shares(Counter(domains), mix)
    held = np.asarray(values, dtype=float)
    middle = variance = 0.0
    for domain, share in shares.items():
        own = held[[one == domain for one in domains]]
        if share > 0:
            middle += share * own.mean()
            variance += share**2 * _variance_of_mean(own)
    from scipy.stats import norm

    away = float(norm.ppf((1 + level) / 2)) * math.sqrt(variance)
    return Interval(middle=float(middle), low=float(middle) - away, high=float(middle) + away, level=level)


def _variance_of_mean(own: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> float:
    """Of shares that are all right or all wrong the spread of the sample is 0, and that of the next one is not: two of each are added."""
    count = len(own)
    if np.isin(own, (0.0, 1.0)).all():
        share = (own.sum() + 2) / (count + 4)
        return float(share * (1 - share) / (count + 4))
    return float(own.var(ddof=1) / count) if count > 1 else float("inf")


def _shares(counts: Mapping[Hashable, int], mix: Mapping[Hashable, float]) -> dict[Hashable, float]:
    total = sum(mix.values())
    missing = [domain for domain, share in mix.items() if share > 0 and not counts.get(domain)]
    extra = [domain for domain in counts if domain not in mix]
    if missing or extra or total <= 0 or min(mix.values()) < 0:
        raise NetdynoError(
            "cannot align the validation set with the mix",
            because=(
                f"it has no sample of `{missing[0]}`" if missing
                else f"the mix says nothing of `{extra[0]}`" if extra
                else "the shares of the mix are not all positive"
            ),
            hint="name the share of each domain, and give samples of each that has one",
        )  # fmt: skip
    return {domain: share / total for domain, share in mix.items()}
