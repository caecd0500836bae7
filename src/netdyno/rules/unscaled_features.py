"""Inputs are so large that training starts far worse than guessing.

Looks for:  input values of a size far from 1 together with a first loss several times that of the best constant answer.
Matters:    the first layer's outputs and gradients grow with the inputs: one learning rate fits no layer, and the model
            spends its updates on undoing the scale.
Try:        subtract the mean and divide by the standard deviation of the training data; keep both for later inputs.
Not this:   large inputs that the model scales itself (the first loss is then that of guessing); targets of a large scale.
"""

from netdyno.records.diagnosis import Finding
from netdyno.records.learning import LossCurve
from netdyno.records.samples import Samples
from netdyno.rules._base import rule
from netdyno.rules._learning import curve as course_of
from netdyno.rules._learning import longest
from netdyno.rules._remedies import remedy
from netdyno.rules._samples import SURE, SUSPECTED, healthy, wrong

# Layers are initialised for inputs of size 1. Pixels of 0 to 16 train well; beyond ten times 1 it shows.
LARGE = 10.0
# Guessing costs guess_loss. A fresh network is within a few tenths of it; five times that is the inputs' doing.
WORSE = 5.0
# Features whose spreads differ by so much leave the small ones unread.
UNEQUAL = 100.0
# A model that took away most of the loss has overcome its inputs.
OVERCOME = 0.95


@rule(stage="data")
def unscaled_features(samples: Samples, curve: LossCurve | None = None) -> Finding | None:
    size, first, guess = samples.rms, samples.first_loss, samples.guess_loss
    if first is None and samples.losses_lost:
        first = _very_first(curve)  # it diverged within the first updates
    if not samples.floating or size is None or size < LARGE or first is None or not guess or samples.joint:
        return None
    times = first / guess
    learnt = samples.learnt
    if samples.losses_lost and times < WORSE:
        times = WORSE  # it diverged before anything could be compared
    if times < WORSE:
        return None
    unequal = samples.spread_ratio is not None and samples.spread_ratio >= UNEQUAL and samples.features < 64
    apart = f", and their spreads differ {samples.spread_ratio:.0f}-fold" if unequal else ""
    poor = learnt is None or learnt < OVERCOME or (samples.eval_loss or 0.0) > 0.25 * guess
    return wrong(
        f"inputs have a size of {size:.3g} instead of about 1{apart}: the loss starts at {first:.3g}, {times:.0f} times what a "
        f"constant guess costs",
        fix="standardise the inputs with the training data's mean and standard deviation",
        because={
            "input_rms": size,
            "first_loss": first,
            "guess_loss": guess,
            "low": samples.low or 0.0,
            "high": samples.high or 0.0,
        },
        confidence=SURE if poor else SUSPECTED,
        where=samples.where,
        explains=("exploding-learning-rate", "dead-units", "exploding-gradient"),
        remedies=remedy("scale-inputs"),
    )


def _very_first(curve: LossCurve | None) -> float | None:
    course = longest(curve) if curve is not None else None
    return course.first if course is not None else None


SICK = (
    (healthy(rms=1000.0, low=-800.0, high=1850.0, first_loss=310.0, last_loss=0.6, eval_loss=1.9),),
    (
        healthy(rms=900.0, first_loss=None, last_loss=None, eval_loss=None, losses_lost=245),
        course_of(6e24, first=142.8, broke=3, nonfinite=437, last_finite=False),
    ),
    (healthy(rms=240.0, first_loss=90.0, last_loss=3.0, spread_ratio=4000.0, features=13),),
)
# Standardised; 0 to 255 that the model scales itself; raw pixels of 0 to 16; a regression on large targets.
WELL = (
    (healthy(),),
    (healthy(rms=110.0, low=0.0, high=255.0, first_loss=2.4),),
    (healthy(rms=7.4, low=0.0, high=16.0, first_loss=4.1),),
    (healthy(task="numbers", loss_name="mse_loss", first_loss=1.1e9, guess_loss=1.0e9, rms=1.0),),
)
