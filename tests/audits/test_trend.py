"""Series that run away, told from waves and noise with a memory."""

import builtins
from dataclasses import replace

import numpy as np
import pytest

from netdyno.audits._base import Skip
from netdyno.audits._specimens import specimen
from netdyno.audits.trend import trend


def series(values):
    made = lambda part: replace(part, x=values(part.x))
    return specimen("series", train=made, val=made)


@pytest.mark.parametrize("seed", range(3))
def test_walks_and_ramps_are_flagged(seed):
    pytest.importorskip("statsmodels")
    walk = lambda x: np.cumsum(np.random.default_rng(seed).normal(0.3, 1.0, x.shape), axis=1)
    assert trend(series(walk)) is not None
    assert trend(series(lambda x: x + 0.2 * np.arange(x.shape[1]))) is not None


@pytest.mark.parametrize("seed", range(3))
def test_waves_and_noise_with_a_memory_are_not(seed):
    pytest.importorskip("statsmodels")
    assert trend(specimen("series", seed=seed)) is None
    assert trend(series(lambda x: np.random.default_rng(seed).normal(size=x.shape))) is None


def test_without_statsmodels_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("statsmodels"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Skip, match=r"netdyno\[series\]"):
        trend(specimen("series"))
