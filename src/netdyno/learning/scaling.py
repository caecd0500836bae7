"""How rate and weight decay follow the batch size: the rules with their exact numbers, which of them to try first, and the trial itself.

A rule is a guess. `tried` runs each over the same seeds at equal epochs, and only what it finds is a claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from netdyno.knobs._base import Setup
from netdyno.knobs._optimizers import built, scaling_of
from netdyno.learning.rate_race import Trained
from netdyno.records.measured import Interval
from netdyno.records.trial import Change
from netdyno.verdicts import study as verdicts

# AdamW's own default is 1e-3; ten times that is more than all but the smallest models bear.
MUCH_FOR_ADAM = 1e-2
LEVEL = 0.95


class Rates(NamedTuple):
    """A rate under each rule."""

    none: float
    sqrt: float
    linear: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """One way to set weight decay. `per_epoch` is the exponent by which weights shrink over an epoch of the batch before."""

    rule: str
    value: float
    per_epoch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to try: `rule` first, but both are there to be tried."""

    rates: Rates
    rule: str
    decays: tuple[Decay, ...]
    decay_rule: str
    says: str


class Tried(NamedTuple):
    """A rule in a trial: its scores by seed, and what they gain over the rate that stays."""

    rule: str
    scores: dict[int, float]
    gain: Interval | None
    told: bool


def scaled(rate: float, *, batch: int, to: int) -> Rates:
    """The rate under each rule (ledger A-141).

    >>> scaled(0.1, batch=256, to=1024)
    Rates(none=0.1, sqrt=0.2, linear=0.4)
    """
    ratio = to / batch
    return Rates(none=rate, sqrt=rate * ratio**0.5, linear=rate * ratio)


def decays(rate: float, decay: float, *, batch: int, to: int, rule: str, steps: int = 1) -> tuple[Decay, ...]:
    """Weight decay under each rule, where the rate follows `rule` (ledger A-142). `steps` are those of an epoch of the batch before.

    What weights lose over an epoch is the product of rate, decay and steps; a larger batch has fewer steps.

    >>> [(one.rule, round(one.per_epoch, 6)) for one in decays(1e-2, 0.04, batch=256, to=1024, rule="sqrt", steps=10)]
    [('constant', 0.002), ('sqrt', 0.004), ('linear', 0.008)]
    """
    ratio = to / batch
    moved: float = getattr(scaled(rate, batch=batch, to=to), rule)
    values = {"constant": decay, "sqrt": decay * ratio**0.5, "linear": decay * ratio}
    return tuple(
        Decay(rule=name, value=value, per_epoch=moved * value * steps / ratio) for name, value in values.items()
    )


def advised(optimizer: Any, *, batch: int, to: int, steps: int = 1) -> Advice:
    """What to try first with this optimizer: linear for plain gradients, as long as noise rules them; the root for Adam and its kin."""
    rule = scaling_of(optimizer)
    group = optimizer.param_groups[0]
    rate, decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
    rates = scaled(rate, batch=batch, to=to)
    # With each of them the product of rate, decay and steps stays what it was.
    decay_rule = {"linear": "constant", "sqrt": "sqrt"}[rule]
    ways = decays(rate, decay, batch=batch, to=to, rule=rule, steps=steps) if decay else ()
    says = (
        f"from {batch} to {to} samples: try a rate of {getattr(rates, rule):.3g} ({rule} rule); the other rule gives "
    )
    says += f"{rates.linear if rule == 'sqrt' else rates.sqrt:.3g}"
    if ways:
        chosen = next(way for way in ways if way.rule == decay_rule)
        says += f"; weight decay {chosen.value:.3g}, so that an epoch shrinks weights as before"
    if rule == "linear":
        says += "; beyond the critical batch size the linear rule asks too much"
    return Advice(rates=rates, rule=rule, decays=ways, decay_rule=decay_rule, says=says)


def tried(
    to: int, *, seeds: Sequence[int], trained: Trained, level: float = LEVEL, equal: str = "epochs"
) -> tuple[Tried, ...]:
    """Trains with the new batch size under each rule, on the same seeds; "none", the rate that stays, is what the others are compared with."""
    scores = {}
    for rule in ("none", "sqrt", "linear"):
        change = Change(id="batch-size", settings={"size": to, "scaling": rule, "equal": equal})
        runs = [trained((change,), seed) for seed in seeds]
        scores[rule] = {run.seed: run.score for run in runs if run.score is not None}
    found = []
    for rule, mine in scores.items():
        gain = verdicts.effect(scores["none"], mine, level) if rule != "none" else None
        pairs = len(mine.keys() & scores["none"].keys())
        told = verdicts.is_better(gain, pairs=pairs) or (gain is not None and pairs > 1 and gain.high < 0)
        found.append(Tried(rule, mine, gain, told))
    return tuple(found)


def rate_warning(setup: Setup) -> str | None:
    """Why a rate looks too high for its optimizer before anything has run, or None (ledger A-143)."""
    optimizer = built(setup)
    kind = type(optimizer).__name__
    rate = max(float(group["lr"]) for group in optimizer.param_groups)
    if kind in ("Adam", "AdamW", "NAdam", "RAdam") and rate > MUCH_FOR_ADAM:
        return f"a rate of {rate:.3g} is {rate / 1e-3:.0f} times the default of `{kind}`; a range test says what the model bears"
    return None
