"""The record itself, or what the doctor says of it, for other programs."""

import msgspec

from netdyno.records import codec
from netdyno.records.record import Record


def render(record: Record, *, indent: int | None = 2) -> str:
    """The record as JSON text; `netdyno.records.codec.decode` reads it back."""
    return codec.encode(record, indent=indent).decode()


def diagnosis(record: Record, *, indent: int = 2) -> str:
    """What the doctor says: `findings`, the root cause first, `notes`, `experiments`, and the `outcomes` of all rules.

    Notes are remarks: about a busy machine, or what a program is bound by in its nature. They are nothing to put right.

    Each finding has its `state`, "found" or "suspected", and whether its fix is "proven", "refuted", "undecided" or None.
    """
    proofs = {each.finding: each.verdict for each in record.experiments}
    told = {
        "target": record.target.name,
        "record": record.id,
        "findings": [
            {**msgspec.to_builtins(outcome.finding), "state": outcome.state, "proof": proofs.get(outcome.rule)}
            for outcome in record.outcomes
            if outcome.finding is not None and outcome.finding.stage != "note"
        ],
        "notes": [
            msgspec.to_builtins(outcome.finding)
            for outcome in record.outcomes
            if outcome.finding is not None and outcome.finding.stage == "note"
        ],
        "experiments": msgspec.to_builtins(record.experiments),
        "outcomes": [
            {key: value for key, value in msgspec.to_builtins(outcome).items() if key != "finding"}
            for outcome in record.outcomes
        ],
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=indent).decode()
