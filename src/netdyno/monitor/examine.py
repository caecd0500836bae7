"""The doctor's rules over what a run has shown so far: live, and of a journal afterwards."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from netdyno.records.diagnosis import Finding, Outcome
from netdyno.records.journal import Alert
from netdyno.rules import _base as rules
from netdyno.scripts import stream
from netdyno.scripts.evidence import evidence

RIDE = "ride"  # the folder within a journal that holds what was told from aboard
# An offer of time is no alarm, and remarks are for who asks.
QUIET = ("speed", "bound", "nature", "note")
# How a training goes is known when it is over: weights that moved little so far may move yet, and looks become rare.
KNOWN_AT_THE_END = ("settings", "use", "dynamics", "outcome")
UNFINISHED = "the run is not over: it may yet turn out otherwise"


def examined(folder: Path) -> tuple[Outcome, ...]:
    """What every rule concludes of a journal, silence included; nothing where no ride was written down.

    Of a run that goes on, or was killed, what is wrong with data, model, loss and order of calls is found; how the training
    goes is at most suspected.
    """
    told = stream.read(folder / RIDE) if (folder / RIDE).is_dir() else stream.Stream()
    found = evidence(told)
    outcomes = rules.diagnose(found) if found else ()
    return outcomes if told.stopped else tuple(map(_unfinished, outcomes))


def _unfinished(outcome: Outcome) -> Outcome:
    if outcome.state == "found" and outcome.finding is not None and outcome.finding.stage in KNOWN_AT_THE_END:
        return replace(outcome, state="suspected", reason=UNFINISHED)
    return outcome


def alerts(outcomes: Iterable[Outcome], *, update: int, seconds: float, run: str = "") -> tuple[Alert, ...]:
    """One for the root cause and each cause beside it; symptoms are folded, and what is only suspected is not told."""
    found = [outcome.finding for outcome in outcomes if outcome.state == "found" and outcome.finding is not None]
    folded = {name for finding in found for name in finding.explains}
    return tuple(
        alert_of(finding, update=update, seconds=seconds, run=run) for finding in found if finding.id not in folded
    )


def alert_of(finding: Finding, *, update: int, seconds: float, run: str) -> Alert:
    """A finding, as it is told while the run goes on."""
    return Alert(
        cause=finding.id, severity="note" if finding.stage in QUIET else "warning", says=finding.says, update=update,
        seconds=seconds, run=run, fix=finding.fix, where=finding.where, because=dict(finding.because), folds=tuple(finding.explains),
    )  # fmt: skip
