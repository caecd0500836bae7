"""The record itself, for other programs."""

from netdyno.records import codec
from netdyno.records.record import Record


def render(record: Record, *, indent: int | None = 2) -> str:
    """The record as JSON text; `netdyno.records.codec.decode` reads it back."""
    return codec.encode(record, indent=indent).decode()
