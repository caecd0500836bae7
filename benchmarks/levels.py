"""Does netdyno keep its word? False keeps over A/A campaigns, and gains found, on noise that is known.

Run `python benchmarks/levels.py` (two minutes of CPU; `--quick` for a look). Every number comes out of the library's
own schedule, looks and judge; only the times are made up here. Four kinds of noise:

- gaussian:     independent log-normal noise on every turn
- heavy tails:  Student's t with two degrees of freedom, on the log scale: now and then a turn takes ten times as long
- drift:        both sides share an AR(1) process (0.95 from pair to pair) that wanders ten times as far as a turn's own noise
- sticky:       either place in a pair (first, second) has its own AR(1) process, 0.5 from pair to pair; a coin decides
                which side sits where, as in the lab

The noise column is the standard deviation of a turn, so that of a pair's log ratio is √2 times as much.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from netdyno.records.measured import Measurement
from netdyno.records.trial import Change, Parity, Trial
from netdyno.stats.sequential import campaign_error, look_error, pairs_needed, schedule
from netdyno.verdicts.judge import judge, look

TRIALS = 12  # changes tried in one campaign
ERROR = 0.05  # of the whole campaign
LEAST_PAIRS, MOST_PAIRS = 8, 400

Noise = Callable[[np.random.Generator, int, float], tuple[np.ndarray, np.ndarray]]


def gaussian(chance: np.random.Generator, pairs: int, sd: float) -> tuple[np.ndarray, np.ndarray]:
    return chance.normal(0, sd, pairs), chance.normal(0, sd, pairs)


def heavy_tails(chance: np.random.Generator, pairs: int, sd: float) -> tuple[np.ndarray, np.ndarray]:
    # Scaled so that the middle half is as wide as that of a gaussian with this sd.
    scale = sd * 0.6745 / 0.8165
    return scale * chance.standard_t(2, pairs), scale * chance.standard_t(2, pairs)


def autoregressive(chance: np.random.Generator, pairs: int, sd: float, keeps: float) -> np.ndarray:
    shocks = chance.normal(0, sd * math.sqrt(1 - keeps**2), pairs)
    series = np.empty(pairs)
    now = chance.normal(0, sd)
    for i in range(pairs):
        now = keeps * now + shocks[i]
        series[i] = now
    return series


def drift(chance: np.random.Generator, pairs: int, sd: float) -> tuple[np.ndarray, np.ndarray]:
    common = autoregressive(chance, pairs, 10 * sd, 0.95)
    return common + chance.normal(0, sd, pairs), common + chance.normal(0, sd, pairs)


def sticky(chance: np.random.Generator, pairs: int, sd: float) -> tuple[np.ndarray, np.ndarray]:
    first, second = autoregressive(chance, pairs, sd, 0.5), autoregressive(chance, pairs, sd, 0.5)
    swapped = chance.random(pairs) < 0.5
    # The noise belongs to the place in the pair, and the coin decides who sits there.
    return np.where(swapped, second, first), np.where(swapped, first, second)


NOISES: dict[str, Noise] = {"gaussian": gaussian, "heavy tails": heavy_tails, "drift": drift, "sticky": sticky}


class Outcome(NamedTuple):
    """One trial: what was decided, after how many pairs, and whether its interval held the truth."""

    decision: str
    pairs: int
    held: bool


def trial(
    chance: np.random.Generator, noise: Noise, *, sd: float, true_gain: float, least_gain: float, error: float
) -> Outcome:
    """Run one trial as the lab does: plan the pairs, look after every block, stop when it is certain, judge."""
    margin = max(least_gain, 0.01) / 2
    most = pairs_needed(sd * math.sqrt(2), margin, error, minimum=LEAST_PAIRS, maximum=MOST_PAIRS)
    plan = schedule(LEAST_PAIRS, most, error)
    a, b = noise(chance, most, sd)
    control, treatment = np.exp(a).tolist(), ((1 - true_gain) * np.exp(b)).tolist()
    taken: list[int] = []
    for pairs in plan.looks:
        taken.append(pairs)
        alpha = look_error(tuple(taken), planned=most, error=error)
        seen = look(
            control[:pairs], treatment[:pairs], spawns=(), form="in-process", least_gain=least_gain, alpha=alpha
        )
        if seen.decision != "undecided":
            break
    verdict = judge(
        stored(control[: taken[-1]], treatment[: taken[-1]], looks=tuple(taken), planned=most),
        number=0,
        least_gain=least_gain,
        error=error,
        bottleneck="simulated",
        undone=True,
    )
    assert verdict.decision == seen.decision, "the stored trial was judged otherwise than the live one"
    assert verdict.gain is not None
    return Outcome(verdict.decision, taken[-1], verdict.gain.holds(true_gain))


def stored(control: list[float], treatment: list[float], *, looks: tuple[int, ...], planned: int) -> Trial:
    def seconds(samples: list[float]) -> Measurement:
        return Measurement(quantity="step", unit="s", samples=tuple(samples))

    return Trial(
        change=Change(id="simulated"),
        against=(),
        form="in-process",
        numerics="same-bits",
        control=seconds(control),
        treatment=seconds(treatment),
        looks=looks,
        planned_pairs=planned,
        parity=(Parity(output="losses", worst=0.0, allowed=0.0, measure="bits"),),
    )


def upper(hits: int, count: int) -> float:
    """The exact (Clopper-Pearson) 95 % upper bound of a rate."""
    from scipy.special import betaincinv

    return 1.0 if hits == count else float(betaincinv(hits + 1, count - hits, 0.95))


def false_keeps(campaigns: int, seed: int) -> Table:
    """How many campaigns of twelve trials keep anything though no change is worth it."""
    table = Table(title=f"A/A: campaigns of {TRIALS} trials that keep anything (allowed: {ERROR:.0%})")
    for column in ("noise", "sd of a turn", "true gain", "least gain", "campaigns", "false", "95 % bound", "coverage"):
        table.add_column(column, justify="left" if column == "noise" else "right")
    error = campaign_error(ERROR, TRIALS)
    # In the last two every trial sits on the line between keep and drop: the hardest case there is.
    for true_gain, least_gain in ((0.0, 0.05), (0.0, 0.0), (0.05, 0.05)):
        for name, noise in NOISES.items():
            chance = np.random.default_rng([seed, len(name), int(1000 * (true_gain + 2 * least_gain))])
            false, held = 0, 0
            for _ in range(campaigns):
                outcomes = [
                    trial(chance, noise, sd=0.05, true_gain=true_gain, least_gain=least_gain, error=error)
                    for _ in range(TRIALS)
                ]
                false += any(outcome.decision == "keep" for outcome in outcomes)
                held += all(outcome.held for outcome in outcomes)
            table.add_row(
                name,
                "5 %",
                f"{true_gain:.0%}",
                f"{least_gain:.0%}",
                str(campaigns),
                f"{false / campaigns:.1%}",
                f"{upper(false, campaigns):.1%}",
                f"{held / campaigns:.1%}",
            )
        table.add_section()
    return table


def power(repeats: int, seed: int) -> Table:
    """How often a planted gain is kept, and after how many pairs."""
    table = Table(title=f"Planted gains: kept out of {repeats}, at the error of one of {TRIALS} trials")
    for column in ("noise", "planted", "least gain", *(f"sd {sd:.0%}" for sd in SPREADS)):
        table.add_column(column, justify="left" if column == "noise" else "right")
    error = campaign_error(ERROR, TRIALS)
    for true_gain, least_gain in ((0.10, 0.05), (0.02, 0.05), (0.05, 0.01)):
        for name, noise in NOISES.items():
            chance = np.random.default_rng([seed, len(name), int(1000 * (true_gain + 2 * least_gain))])
            cells = []
            for sd in SPREADS:
                outcomes = [
                    trial(chance, noise, sd=sd, true_gain=true_gain, least_gain=least_gain, error=error)
                    for _ in range(repeats)
                ]
                kept = sum(outcome.decision == "keep" for outcome in outcomes) / repeats
                cells.append(f"{kept:.0%} ({np.median([outcome.pairs for outcome in outcomes]):.0f} pairs)")
            table.add_row(name, f"{true_gain:.0%}", f"{least_gain:.0%}", *cells)
        table.add_section()
    return table


SPREADS = (0.01, 0.03, 0.06, 0.12)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    console = Console()
    began = time.perf_counter()
    console.print(false_keeps(options.campaigns // part, options.seed))
    console.print(power(options.repeats // part, options.seed))
    console.print(f"{time.perf_counter() - began:.0f} s", style="dim")
    return 0


if __name__ == "__main__":
    sys.exit(main())
