"""Finds the transform that does harm: all off, then one after the other back on, on short trainings over seeds (ledger A-082)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from netdyno.progress import Event, Listener, silent
from netdyno.records.measured import Interval
from netdyno.stats.spread import t_interval

# Trains under the named transforms and a seed; gives the validation score, higher is better. What is not random (resizing, making a
# tensor) stays on in it.
Train = Callable[[tuple[str, ...], int], float]


class Effect(NamedTuple):
    """What one transform does to the score, by itself, paired by seed. `guilty` when it takes something away beyond the noise."""

    name: str
    effect: Interval

    @property
    def guilty(self) -> bool:
        """Whether the whole interval lies below nothing."""
        return self.effect.high < 0


class Bisection(NamedTuple):
    """The scores without any transform and with all, and the effect of each. `says` is the answer in a sentence."""

    bare: tuple[float, ...]
    everything: tuple[float, ...]
    whole: Interval
    effects: tuple[Effect, ...]
    says: str

    @property
    def guilty(self) -> tuple[str, ...]:
        """The transforms that take something away, the worst first."""
        found = sorted((each for each in self.effects if each.guilty), key=lambda each: each.effect.middle)
        return tuple(each.name for each in found)


def bisect(
    train: Train,
    names: Sequence[str],
    *,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    level: float = 0.95,
    listener: Listener = silent,
) -> Bisection:
    """What each transform does alone to a training without any. Needs at least two seeds: one score has no noise to compare with."""
    if len(seeds) < 2:
        raise ValueError("one seed cannot tell an effect from noise; give at least two")
    rounds = ((), *((name,) for name in names), tuple(names))
    scores = []
    for done, chosen in enumerate(rounds):
        listener(Event(f"training with {', '.join(chosen) or 'no transform'}", done, len(rounds)))
        scores.append(tuple(train(chosen, seed) for seed in seeds))
    bare, *single, everything = scores
    # One in twenty intervals is wrong by chance: of several, each gets its part of the error.
    strict = 1 - (1 - level) / max(len(names), 1)
    effects = tuple(Effect(name, _paired(bare, each, strict)) for name, each in zip(names, single, strict=True))
    found = Bisection(bare, everything, _paired(bare, everything, level), effects, "")
    return found._replace(says=_told(found))


def _paired(control: Sequence[float], treatment: Sequence[float], level: float) -> Interval:
    return t_interval([after - before for before, after in zip(control, treatment, strict=True)], level)


def _told(found: Bisection) -> str:
    if found.guilty:
        worst = min(found.effects, key=lambda each: each.effect.middle)
        return (
            f"`{worst.name}` takes {-worst.effect.middle:.3g} of the score [{-worst.effect.high:.3g}, {-worst.effect.low:.3g}]"
            + (f"; so do {', '.join(f'`{name}`' for name in found.guilty[1:])}" if found.guilty[1:] else "")
        )
    if found.whole.high < 0:
        return "together they do harm, and none does alone: it is their sum or an interaction"
    return "no transform does harm that can be told from the noise between seeds"
