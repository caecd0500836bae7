"""How a rule names what an experiment may do in the place of its fix."""

from netdyno.records.evidence import Place
from netdyno.records.trial import Change, Scalar

Remedies = tuple[Change, ...]


def remedy(name: str, **settings: Scalar) -> Remedies:
    """What takes effect in the whole script, or a change of the room of interventions. Sums are alternatives, in order."""
    return (Change(id=name, settings=settings),)


def remedy_at(where: Place | None, name: str, **settings: Scalar) -> Remedies:
    """What takes effect on one line only; none where the line is not known, since elsewhere it would do harm."""
    if where is None or where.line is None or not where.file:
        return ()
    return (Change(id=name, settings={**settings, "file": where.file, "line": where.line}),)
