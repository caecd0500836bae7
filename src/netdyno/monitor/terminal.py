"""Alerts on the terminal: short, on stderr, each cause once."""

import sys

from netdyno.records.journal import Alert


def said(alert: Alert) -> None:
    """Three lines at most. Remarks about time stay in the journal: a terminal is for what must not wait."""
    if alert.severity == "note":
        return
    sys.stderr.write(in_words(alert))
    sys.stderr.flush()


def in_words(alert: Alert) -> str:
    """What a person reads.

    >>> print(in_words(Alert(cause="loss-not-finite", severity="trip", says="the loss is NaN", update=7, seconds=1.0)), end="")
    netdyno: the loss is NaN (update 7, loss-not-finite)
    """
    place = f", {alert.where.file}:{alert.where.line}" if alert.where is not None and alert.where.file else ""
    lines = [f"netdyno: {alert.says} (update {alert.update}{place}, {alert.cause})"]
    if alert.fix:
        lines.append(f"  try: {alert.fix}")
    if alert.snapshot:
        lines.append(f"  to continue from: {alert.snapshot}")
    return "".join(f"{line}\n" for line in lines)
