"""False wins and found gains: whole campaigns of trials on placebos and on gains of known size.

    python benchmarks/campaigns.py --resampled 200 --live 20 --planted 40

Resampled: one long A/A recording of this machine is cut into stretches, and each trial of a campaign is fed such a
stretch through the same code as a live trial. Live: campaigns of placebos on a real model. Planted: a delay that the
change takes away, of a size that is calibrated before every repeat. Writes docs/results/campaigns.md.
"""

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

import specimens
from netdyno.arms.base import Arm
from netdyno.interventions._base import written
from netdyno.records.measured import Split, Turn
from netdyno.records.record import Plan
from netdyno.records.trial import Memory, Trial, Verdict
from netdyno.stats.sequential import campaign_error
from netdyno.stats.spread import robust_noise
from netdyno.targets.workload import Workload
from netdyno.trials.attempt import noise_of, try_change
from netdyno.trials.lab import Lab
from netdyno.trials.race import race
from netdyno.verdicts.judge import judge

TRIALS_PER_CAMPAIGN = 10
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "campaigns.md"


class Recorded:
    """An arm that plays back seconds that were measured before."""

    recipe = ()
    setup_s = 0.0

    def __init__(self, seconds: Iterator[float]) -> None:
        self.seconds = seconds

    def turn(self, steps: int) -> Turn:
        return Turn(steps=steps, time=Split(running=next(self.seconds) * steps), losses=(0.0,) * steps)

    def checksum(self) -> str:
        return "recorded"

    def memory(self) -> Memory:
        return Memory()

    def close(self) -> None:
        pass


def recording(pairs: int) -> list[tuple[float, float]]:
    """Seconds per step of two equal sides, pair by pair."""
    lab = Lab(reference="", workload=specimens.delayed(), plan=Plan(seed=1), chance=random.Random(1))
    with ExitStack() as stack:
        arms: list[Arm] = [stack.enter_context(closing(lab.open((), "in-process"))) for _ in range(2)]
        steps, _ = lab.warm(arms, "in-process")
        rounds = race(arms, rounds=pairs, steps=steps, chance=lab.chance)
    return [(done.seconds(0), done.seconds(1)) for done in rounds]


def tried(lab: Lab, change: object, error: float, number: int) -> tuple[Trial, Verdict]:
    trial = try_change(lab, change, against=(), error=error)
    verdict = judge(
        trial, number=number, least_gain=lab.plan.least_gain, error=error, bottleneck="planted", undone=True
    )
    return trial, verdict


def resampled_campaign(seed: int, recorded: list[tuple[float, float]], noise: float) -> int:
    """Trials of placebos fed from the recording; how many were kept."""
    chance = random.Random(seed)
    kept = 0
    for number in range(TRIALS_PER_CAMPAIGN):
        start = chance.randrange(len(recorded))
        stretch = list(itertools.islice(itertools.cycle(recorded), start, start + len(recorded)))
        # Which of two equal sides is called the control is a coin's matter.
        sides = [[pair[side] for pair in stretch] for side in chance.sample((0, 1), 2)]
        streams = itertools.cycle([itertools.cycle(side) for side in sides])
        lab = Lab(
            reference="",
            workload=specimens.delayed(),
            plan=Plan(seed=seed),
            chance=chance,
            opener=lambda *_, streams=streams, **__: Recorded(next(streams)),
            noise={"in-process": noise},
        )
        error = campaign_error(lab.plan.error, trials=TRIALS_PER_CAMPAIGN)
        _, verdict = tried(lab, written(specimens.Placebo(number)), error, number)
        kept += verdict.decision == "keep"
    return kept


def live_campaign(seed: int, workload: Workload) -> tuple[int, list[Trial]]:
    plan = Plan(seed=seed, trial_s=20)
    lab = Lab(reference="", workload=workload, plan=plan, chance=random.Random(seed))
    lab.noise["in-process"] = noise_of(lab)
    error = campaign_error(plan.error, trials=TRIALS_PER_CAMPAIGN)
    kept, trials = 0, []
    for number in range(TRIALS_PER_CAMPAIGN):
        trial, verdict = tried(lab, written(specimens.Placebo(number)), error, number)
        kept += verdict.decision == "keep"
        trials.append(trial)
    return kept, trials


def step_seconds() -> float:
    """Running plus blocked seconds of an undelayed step, now."""
    lab = Lab(reference="", workload=specimens.delayed(), plan=Plan())
    with closing(lab.open((), "in-process")) as arm:
        steps, _ = lab.warm([arm], "in-process")
        return statistics.median(arm.turn(steps).per_step for _ in range(15))


def planted(share: float, least_gain: float, seed: int) -> tuple[str, float, Trial, Verdict]:
    """One trial of a change that saves `share` of a step."""
    base = step_seconds()
    workload = specimens.delayed(delay_s=base * share / (1 - share))
    plan = Plan(seed=seed, least_gain=least_gain, trial_s=60, max_pairs=3000)
    lab = Lab(reference="", workload=workload, plan=plan, chance=random.Random(seed))
    lab.noise["in-process"] = noise_of(lab)
    began = time.monotonic()
    trial, verdict = tried(lab, written(specimens.RemoveDelay()), campaign_error(plan.error, trials=10), 0)
    return verdict.decision, time.monotonic() - began, trial, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--resampled", type=int, default=200)
    parser.add_argument("--live", type=int, default=20)
    parser.add_argument("--planted", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=1500)
    options = parser.parse_args()
    specimens.register(specimens.Placebo, specimens.RemoveDelay)
    console = Console()
    lines = ["# False wins and found gains", "", f"Made by `make bench-campaigns`, {specimens.here()}.", ""]
    table = Table("what", "repeats", "kept", "asked", "seconds a trial (median, most)")

    def row(*cells: str) -> None:
        table.add_row(*cells)
        lines.append("| " + " | ".join(cells) + " |")
        console.print(" · ".join(cells))

    lines += ["| what | repeats | kept | asked | seconds a trial (median, most) |", "| --- | --- | --- | --- | --- |"]
    if options.resampled:
        recorded = recording(options.pairs)
        noise = robust_noise([a for a, _ in recorded[:32]], [b for _, b in recorded[:32]])
        wrong = sum(resampled_campaign(seed, recorded, noise) > 0 for seed in range(options.resampled))
        row(
            f"A/A campaigns of {TRIALS_PER_CAMPAIGN} trials, resampled noise",
            str(options.resampled), f"{wrong} ({wrong / options.resampled:.1%})", "at most 5 %", "",
        )  # fmt: skip
    if options.live:
        wrong, seconds = 0, []
        for seed in range(options.live):
            kept, trials = live_campaign(seed, specimens.delayed())
            wrong += kept > 0
            seconds += [trial.cost_s for trial in trials]
        row(
            f"A/A campaigns of {TRIALS_PER_CAMPAIGN} trials, live",
            str(options.live), f"{wrong} ({wrong / options.live:.1%})", "at most 5 %", _spent(seconds),
        )  # fmt: skip
    for share, least, wanted in ((0.10, 0.05, "keep"), (0.02, 0.05, "not keep"), (0.05, 0.01, "keep")):
        if not options.planted:
            break
        results = [planted(share, least, seed) for seed in range(options.planted)]
        kept = sum(decision == "keep" for decision, *_ in results)
        row(
            f"planted {share:.0%}, least gain {least:.0%}",
            str(options.planted), f"{kept} ({kept / options.planted:.0%})",
            "at least 90 %" if wanted == "keep" else "at most 10 %", _spent([seconds for _, seconds, *_ in results]),
        )  # fmt: skip
    console.print(table)
    RESULTS.write_text("\n".join(lines) + "\n")


def _spent(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f}, {max(seconds):.1f}"


if __name__ == "__main__":
    main()
