"""Packages to serve: a toy runtime that needs nothing but NumPy, in all the ways in which a model can misbehave."""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from netdyno.records.deployment import Manifest, Port, Running, Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.shipping import package as packages

WIDTH = 4
WEIGHTS = np.arange(WIDTH * 3, dtype=np.float32).reshape(WIDTH, 3) / 7 - 0.6


@dataclass(frozen=True, slots=True)
class Toy:
    """Rows times a matrix, one row at a time, so that answers do not depend on company. `mood` is what goes wrong."""

    mood: str = ""

    level: ClassVar[str] = "built in"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 1.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = False
    precision: ClassVar[str] = "fp32"

    def unavailable(self):
        return "it needs `toys`" if self.mood == "missing" else None

    def load(self, folder, running):
        noise = np.random.default_rng(0)
        count = itertools.count()
        mood = self.mood

        def call(arrays):
            (rows,) = arrays
            if mood == "slow" and (rows == 7777).any():
                time.sleep(1.0)
            if mood == "picky" and (rows == 13).any():
                raise IndexError("13 is not in the vocabulary")
            if mood == "moody" and next(count) > 100:
                raise RuntimeError("out of memory")
            if mood == "overflowing" and (rows > 1e30).any():
                return (np.full((len(rows), 3), np.inf, dtype=np.float32),)
            answers = np.stack([row @ WEIGHTS for row in rows])
            if mood == "dropout":
                answers *= noise.random(answers.shape) > 0.1
            if mood == "neighbours":
                answers = answers - answers.mean(0)
            if mood == "rounding" and len(rows) > 2:
                answers = answers * np.float32(1 + 1e-6)
            return (answers.astype(np.float32),)

        return call


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """The toy among the runtimes."""
    there = dict(runtimes.catalogue())
    monkeypatch.setattr(runtimes, "catalogue", lambda: {**there, "toy": Toy})


def manifest(**changes):
    """A manifest of the toy."""
    settings = {
        "name": "toy",
        "version": "3",
        "made_by": "netdyno 0",
        "made_at": "2026-01-01T00:00:00Z",
        "model_hash": "0",
        "runtime": Change(id="toy", settings={"mood": ""}),
        "running": Running(batches=(1, 2, 4, 8)),
        "signature": Signature(
            inputs=(Port(name="x", dtype="float32", shape=(WIDTH,)),),
            outputs=(Port(name="scores", dtype="float32", shape=(3,)),),
        ),
        "classes": ("cat", "dog", "owl"),
        "machine": "here",
    }
    return Manifest(**{**settings, **changes})


def rows(count, seed=0):
    """Sample rows."""
    return (np.random.default_rng(seed).normal(size=(count, WIDTH)).astype(np.float32),)


def truth(arrays):
    """What the toy answers."""
    return (np.stack([row @ WEIGHTS for row in arrays[0]]).astype(np.float32),)


def written(folder, mood="", **changes):
    """A package of the toy in that mood."""
    artifact = Path(folder) / "artifact"
    artifact.mkdir(parents=True, exist_ok=True)
    (artifact / "weights").write_bytes(WEIGHTS.tobytes())
    inputs = rows(8)
    settings = {"runtime": Change(id="toy", settings={"mood": mood}), **changes}
    packages.write(
        Path(folder) / "package", manifest(**settings), artifact=artifact, inputs=inputs, answers=truth(inputs)
    )
    return packages.opened(Path(folder) / "package")
