"""Series run away: their level has a trend or a unit root.

Looks for:  series of which two tests say so from both sides: Dickey and Fuller's does not reject a unit root, and that of
            Kwiatkowski, Phillips, Schmidt and Shin rejects a steady level.
Matters:    later values lie where none was learned from; two series that run away look related without being so.
Try:        subtract the trend or take differences before a window is cut, with what is known at that time.
Not this:   waves, seasons, noise with a memory; series that are too short to tell.
"""

import warnings
from dataclasses import replace

import numpy as np

from netdyno.audits._base import Array, Part, Skip, View, audit, wrong
from netdyno.audits._pictures import shown
from netdyno.audits._specimens import specimen
from netdyno.records.diagnosis import Finding

# Dickey and Fuller's test has little power on fewer values.
SHORTEST = 40
LEVEL = 0.05
# Single series are judged wrongly once in twenty times by each test; not half of them.
MOST_SERIES, SHARE = 40, 0.5
# Half-way of a wave that does not fit into the window looks like a trend: nothing is said of windows that hold no whole wave.
LONGEST = 400


@audit(modalities=("series",))
def trend(view: View) -> Finding | None:
    series = _series(view.train)
    if series.shape[1] < SHORTEST:
        raise Skip(f"series of {series.shape[1]} values are too short to tell a trend from a wave")
    try:
        import statsmodels.tsa.stattools  # noqa: F401  the tests below need it
    except ImportError:
        raise Skip("statsmodels is not installed: `pip install netdyno[series]`") from None
    chosen = np.linspace(0, len(series) - 1, min(len(series), MOST_SERIES)).astype(int)
    runs = [row for row in chosen if _runs_away(series[row])]
    share = len(runs) / len(chosen)
    if share < SHARE:
        return None
    beyond = _beyond(view)
    outside = f"; {beyond:.0%} of the values judged on lie outside of training's range" if beyond > 0.05 else ""
    return wrong(
        f"{len(runs)} of {len(chosen)} series looked at run away (a unit root is not rejected, and a steady level is){outside}",
        fix="subtract the trend or take differences, unless the level itself is what is asked for",
        because={"share": share, "looked_at": float(len(chosen)), "outside": beyond},
        exhibits=tuple(shown(view, view.train, int(row)) for row in runs[:4]),
        # Of walks whose level matters (a price, a count) a person knows; that values lie outside is harm.
        confidence=0.85 if beyond > 0.05 else 0.75,
        explains=("covariate-shift",),
    )


def _series(part: Part) -> Array:
    x = np.asarray(part.x, dtype=np.float64)
    x = x[..., 0] if x.ndim == 3 else x.reshape(len(x), -1)
    return x[:, :LONGEST]


def _runs_away(values: Array) -> bool:
    from statsmodels.tsa.stattools import adfuller, kpss

    if not np.isfinite(values).all() or np.ptp(values) == 0:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of p-values beyond the table
        return bool(adfuller(values)[1] > LEVEL and kpss(values, nlags="auto")[1] < LEVEL)


def _beyond(view: View) -> float:
    mine = _series(view.train)
    low, high = float(np.nanmin(mine)), float(np.nanmax(mine))
    shares = [float(np.mean((other < low) | (other > high))) for other in map(_series, view.others)]
    return max(shares, default=0.0)


def _walk(part: Part) -> Part:
    return replace(part, x=np.cumsum(np.random.default_rng(0).normal(0.3, 1, part.x.shape), axis=1))


SICK = (
    lambda: specimen("series", train=_walk, val=_walk),
    lambda: specimen("series", train=lambda part: replace(part, x=part.x + 0.2 * np.arange(64))),
)
WELL = (lambda: specimen("series"), lambda: specimen("series", seed=4))
