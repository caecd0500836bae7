"""What Python and its libraries warned of while the script ran."""

import sys
import warnings
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import Vital, Watch

# A script that warns of more different things than this is not read to the end by anybody.
MOST = 60
LONGEST = 600


class Warned(Vital):
    """Hears each warning that is shown, with the user's line that led to it."""

    kind: ClassVar[str] = "Warnings"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.heard: dict[tuple[str, str, Line], int] = {}
        watch.observer.replacements.replace("warnings", warnings, "_showwarnmsg", self._listening)

    def _listening(self, original: Any) -> Any:
        def _showwarnmsg(message: Any) -> None:
            self.watch.observer.guarded("vital warned", self._hear, message, sys._getframe(1))
            original(message)

        return _showwarnmsg

    def _hear(self, message: Any, frame: Any) -> None:
        key = (message.category.__name__, str(message.message)[:LONGEST], user_line(frame))
        if key in self.heard or len(self.heard) < MOST:
            self.heard[key] = self.heard.get(key, 0) + 1

    def summary(self) -> dict[str, Any] | None:
        """Warnings in the order in which they came."""
        told = [
            {
                "category": category,
                "message": says,
                "where": {"file": line.file, "line": line.line} if line.file else None,
                "times": times,
            }
            for (category, says, line), times in list(self.heard.items())
        ]
        return {"warnings": told} if told else None


VITAL = Warned
