"""Whether an endpoint answers the same request the same way every time (ledger A-250)."""

from collections.abc import Callable
from typing import NamedTuple

from netdyno.records.measured import Interval
from netdyno.stats.shares import counted_share

TIMES = 1000  # none among so many: fewer than four in a thousand, at 95 %


class Stability(NamedTuple):
    """How many of `asked` answers differ from the first, with the range of their true share, and the first that did."""

    asked: int
    differ: int
    share: Interval
    example: tuple[bytes, bytes] | None = None

    @property
    def says(self) -> str:
        """In words."""
        return f"{self.differ} of {self.asked} repeated answers differ (at most {self.share.high:.2%} do)"


def probed(ask: Callable[[], bytes], *, times: int = TIMES) -> Stability:
    """Ask the same thing so many times; what comes back is compared byte by byte, so it must hold nothing that is new each time."""
    first, differ = ask(), 0
    example: tuple[bytes, bytes] | None = None
    for _ in range(times):
        answer = ask()
        if answer != first:
            differ += 1
            example = example or (first, answer)
    return Stability(times, differ, counted_share(differ, times), example)
