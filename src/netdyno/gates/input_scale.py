"""Two declared sources of inputs are on another scale.

Looks for:  mean and spread of the example, the calibration data and what comes in production, against the validation data on which the module
            is judged.
Matters:    quantisers take their ranges from the calibration data, and clients send what production has: on another scale the
            answers were never judged (fault bench T08). Random noise as calibration data shows here too.
Try:        one preparation for all of them.
Not this:   an example of random numbers, which only chooses a shape: that is a warning. Another mix of the same inputs.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from netdyno.gates._base import MANY, Candidate, Inputs, failed, item, passed, unseen
from netdyno.gates._specimens import candidate, pictures
from netdyno.records.deployment import GateCheck

# Another scene is darker or livelier by a half; a forgotten division by 255, or a normalisation, is more than this.
TIMES, DEVIATIONS = 3.0, 3.0
# Fewer numbers than this have no scale to speak of.
LEAST = 32


class Scale(NamedTuple):
    """Mean and spread of a source."""

    mean: float
    spread: float


@item
def input_scale(candidate: Candidate) -> GateCheck:
    sources = _sources(candidate)
    if len(sources) < 2:
        return unseen("it takes two sources: calibration, validation or production data beside the example")
    standard = next(iter(sources))
    found: GateCheck | None = None
    looked = 0
    for name, inputs in list(sources.items())[1:]:
        for at, (mine, theirs) in enumerate(zip(sources[standard], inputs, strict=True)):
            if not mine.is_floating_point() or min(mine.numel(), theirs.numel()) < LEAST:
                continue
            looked += 1
            one, other = _scale(mine), _scale(theirs)
            if not _differ(one, other):
                continue
            says = (
                f"input {at} has mean {other.mean:.4g} and spread {other.spread:.4g} in {name}, and mean {one.mean:.4g} and spread "
                f"{one.spread:.4g} in {standard}"
            )
            check = failed(
                says,
                fix="take real rows for the example"
                if name == "the example"
                else f"prepare {name} as {standard} is prepared",
                warning=name == "the example",
                mean=other.mean,
                spread=other.spread,
                standard_mean=one.mean,
                standard_spread=one.spread,
            )
            if found is None or found.warning:
                found = check
    if found is not None:
        return found
    return (
        passed(f"{', '.join(sources)} are on one scale", sources=float(len(sources)))
        if looked
        else unseen("no input is a floating-point one with enough numbers")
    )


def _sources(candidate: Candidate) -> dict[str, Inputs]:
    """What the others are compared with comes first."""
    found: dict[str, Inputs] = {}
    if candidate.validation is not None:
        found["the validation data"] = candidate.inputs_of(candidate.validation, MANY // 4)
    if candidate.calibration is not None:
        found["the calibration data"] = candidate.inputs_of(candidate.calibration, MANY // 4)
    if candidate.release.production is not None:
        given = candidate.release.production()
        found["production"] = (given,) if isinstance(given, Tensor) else tuple(given)
    found["the example"] = candidate.example
    return found


def _scale(tensor: Tensor) -> Scale:
    flat = tensor.detach().double()
    flat = flat[flat.isfinite()]
    return Scale(float(flat.mean()), float(flat.std(correction=0))) if flat.numel() else Scale(0.0, 0.0)


def _differ(one: Scale, other: Scale) -> bool:
    if not one.spread or not other.spread:
        return one.spread != other.spread and abs(one.mean - other.mean) > DEVIATIONS * max(one.spread, other.spread)
    ratio = max(one.spread / other.spread, other.spread / one.spread)
    return ratio > TIMES or abs(one.mean - other.mean) > DEVIATIONS * min(one.spread, other.spread)


def _bytes() -> Tensor:
    return 127.5 + 60 * pictures()[0]


SICK = (
    lambda: candidate(production=_bytes),
    lambda: candidate(calibration=lambda: (pictures()[0] / 255, pictures()[1])),
    lambda: candidate(
        calibration=lambda: (torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(0)) / 2, pictures(64)[1])
    ),
)
WELL = (
    candidate,
    lambda: candidate(production=lambda: 1.3 * pictures(seed=5)[0] + 0.3),
    lambda: candidate(example=lambda: 100 * torch.rand(4, 1, 8, 8)),
)
