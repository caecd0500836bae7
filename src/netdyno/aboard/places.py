"""Which lines of the user's files build and call what an edit of the source would take hold of."""

import sys

from .frames import NOWHERE, Line, user_line

# A script that steps from more lines than this is not edited by anybody who has not read it.
MOST = 20


class Places:
    """Lines by what was seen there: optimizers constructed; forwards, backwards and evaluations called."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[Line, None]] = {}

    def note(self, kind: str) -> None:
        """The innermost line of the user on the stack of whoever calls this."""
        lines = self._seen.setdefault(kind, {})
        line = user_line(sys._getframe(1))
        if line is not NOWHERE and len(lines) < MOST:
            lines[line] = None

    def summary(self) -> dict[str, list[tuple[str, int]]]:
        """As it stands in the tick."""
        return {
            kind: list(dict.fromkeys((line.file, line.line) for line in list(lines)))
            for kind, lines in self._seen.items()
        }
