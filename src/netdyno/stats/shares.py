"""How sure a share is that was counted: so many hits in so many looks."""

from netdyno.records.measured import Interval


def counted_share(hits: int, looks: int, *, level: float = 0.95) -> Interval:
    """The share of `hits` among `looks`, with the interval of Clopper and Pearson: it is never too narrow.

    >>> counted_share(27, 100).holds(0.2)
    True
    """
    if not looks:
        raise ValueError("nothing was looked at")
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(hits, looks - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, looks - hits, 1 - tail)) if hits < looks else 1.0
    return Interval(middle=hits / looks, low=low, high=high, level=level)
