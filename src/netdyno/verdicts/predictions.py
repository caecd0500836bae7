"""How well the predictions of each intervention came true, over all runs on record."""

from collections.abc import Iterable

from netdyno.records.record import Record
from netdyno.records.trial import Trial
from netdyno.verdicts.judge import measured_gain

# An intervention without a record is trusted wholly, as if two predictions had come true already: one miss then
# costs a third of the trust, and it takes a row of them to put a change last.
PRIOR = 2.0

LEVEL = 0.95


def trust(records: Iterable[Record]) -> dict[str, float]:
    """Between 0 and 1 for each intervention that was tried; one that is not in the answer deserves 1.0.

    trust = (PRIOR + sum of scores) / (PRIOR + number of scores): a hit rate shrunken towards 1, the mean of a Beta
    distribution with PRIOR hits before the first trial. The score of a trial is 1 when the measured gain reached what
    was predicted, and otherwise the part of it that arrived. Doing better than predicted costs no trust: trust says
    how soon to try a change, and a pleasant surprise is no reason to wait.
    """
    scores: dict[str, list[float]] = {}
    for record in records:
        for trial in record.trials:
            score = score_of(trial)
            if score is not None:
                scores.setdefault(trial.change.id, []).append(score)
    return {name: (PRIOR + sum(found)) / (PRIOR + len(found)) for name, found in scores.items()}


def score_of(trial: Trial) -> float | None:
    """The part of the predicted gain that arrived, 0 to 1; None when the trial cannot tell.

    A failed trial delivered nothing. A trial whose interval holds both nothing and the promise says nothing.
    """
    prediction = trial.prediction
    if prediction is None:
        return None
    if trial.failed is not None:
        return 0.0
    pairs = min(len(trial.control.samples), len(trial.treatment.samples))
    if not pairs:
        return None
    gain = measured_gain(
        trial.control.samples[:pairs],
        trial.treatment.samples[:pairs],
        spawns=trial.spawns[:pairs],
        form=trial.form,
        level=LEVEL,
    )
    if gain.low <= 0 < prediction.low <= gain.high:
        return None
    if gain.high >= prediction.low:
        return 1.0
    return max(0.0, gain.middle / prediction.low) if prediction.low > 0 else 0.0
