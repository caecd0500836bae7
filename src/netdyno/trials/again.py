"""A second chance for a change whose gain lies near the line between keep and drop: fresh pairs, and more of them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from netdyno.records.record import Proposal
from netdyno.records.trial import Trial, Verdict
from netdyno.stats.sequential import pairs_needed
from netdyno.stats.spread import robust_noise

# A change that saved less than this part of what is asked for will hardly turn out to save all of it.
NEAR = 0.5
# Fewer pairs than this multiple of the first trial's would leave it as undecided as it was.
MORE = 1.5
# A campaign that has nothing else left to try can afford trials this much longer than its plan's.
LONGER = 5
FEWEST = 2  # pairs that show any noise


class Again(NamedTuple):
    """What to try once more, in its old setting, and with how many pairs. `seconds` is what they will take."""

    proposal: Proposal
    pairs: int
    seconds: float


def second_chance(
    proposed: Iterable[Proposal],
    trials: tuple[Trial, ...],
    verdicts: tuple[Verdict, ...],
    *,
    spent: Mapping[str, int],
    chances: int,
    line: float,
    error: float,
    most_pairs: int,
    seconds: float,
) -> Again | None:
    """The undecided change that saved most, if `seconds` buy pairs enough to tell on which side of `line` it lies.

    Its second trial stands on fresh pairs alone and has an error share of its own, so it may be chosen for what the
    first one showed: `spent` counts the trials of each intervention, and none gets more than its `chances`. Only
    trials in one process are repeated: between processes a unit of replication is a spawn, and too dear.
    """
    open_now = {proposal.change.label: proposal for proposal in proposed if proposal.refused is None}
    found = [
        (verdict.gain.middle, Again(open_now[trial.change.label], pairs, pairs * _each(trial)))
        for verdict in verdicts
        if verdict.gain is not None and _near(verdict, line)
        for trial in trials[verdict.trial : verdict.trial + 1]
        if trial.form == "in-process" and trial.change.label in open_now and spent.get(trial.change.id, 0) < chances
        for pairs in [
            _pairs(trial, gap=abs(verdict.gain.middle - line), error=error, most_pairs=most_pairs, seconds=seconds)
        ]
        if pairs
    ]
    return max(found, key=lambda row: row[0])[1] if found else None


def _near(verdict: Verdict, line: float) -> bool:
    gain = verdict.gain
    return gain is not None and verdict.decision == "undecided" and gain.middle > NEAR * line and gain.holds(line)


def _pairs(trial: Trial, *, gap: float, error: float, most_pairs: int, seconds: float) -> int:
    """How many pairs tell a gain that lies `gap` from the line; 0 when not enough more than last time can be had."""
    taken = len(trial.control.samples)
    if taken < FEWEST:
        return 0
    affordable = min(LONGER * most_pairs, int(seconds / _each(trial)))
    if affordable < MORE * taken:
        return 0
    noise = robust_noise(trial.control.samples, trial.treatment.samples)
    return pairs_needed(noise, margin=gap, error=error, minimum=round(MORE * taken), maximum=affordable)


def _each(trial: Trial) -> float:
    """Seconds that a pair of the first trial took, with its part of what was built and checked around it."""
    return max(trial.cost_s, 1e-3) / len(trial.control.samples)
