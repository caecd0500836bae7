"""Which lines a gap lies between: time in no watched call is the user's own lines from the call before to the call after."""

import sys
from collections import Counter
from typing import Any

from .account import GAP, NAMES, Account
from .frames import NOWHERE, Line, two_levels

# Stretches of lines that are told for one gap: as many as there are calls of one kind in a script with three networks.
MOST = 8


class Stretches:
    """Counts, for each gap, from which line of the user to which it was seen to last."""

    def __init__(self) -> None:
        self.left: Line = NOWHERE
        self.seen: Counter[tuple[int, Line, Line, str]] = Counter()

    def summary(self) -> dict[str, list[tuple[str, int, int, float, str]]]:
        """By gap: file, first and last line, their share of all that was seen of the gap, and the framework's function
        that the second call came from, if a framework made it; the most frequent ones."""
        found: dict[str, list[tuple[str, int, int, float, str]]] = {}
        seen = self.seen.copy()
        whole: Counter[int] = Counter()
        for (gap, *_), times in seen.items():
            whole[gap] += times
        for (gap, before, after, framework), times in seen.most_common():
            told = found.setdefault(NAMES[gap], [])
            if len(told) < MOST and before.file == after.file:
                first, last = sorted((before.line, after.line))
                told.append((after.file, first, last, times / whole[gap], framework))
        return found


class LookingAccount(Account):
    """The account while somebody looks: it walks the stack where a gap begins and ends, which costs some µs each."""

    __slots__ = ()

    def switch(self, phase: int) -> None:
        """End what is on and begin `phase`; note the user's line where one of the two is a gap."""
        ended = self.current
        Account.switch(self, phase)
        stretches: Stretches | None = self.stretches
        if stretches is None or not self.on:
            return
        if phase >= GAP:
            stretches.left, _ = two_levels(sys._getframe(1))
        elif ended >= GAP and stretches.left is not NOWHERE:
            here, framework = two_levels(sys._getframe(1))
            if here is not NOWHERE:
                stretches.seen[ended, stretches.left, here, _its_own(framework)] += 1


def _its_own(framework: str | None) -> str:
    """PyTorch's own functions are where a call arrives, not where it comes from."""
    return "" if framework is None or framework.startswith("torch.") else framework


def look(account: Any, looking: bool) -> None:
    """Look from now on, or no more."""
    wanted = LookingAccount if looking else Account
    if account.__class__ is not wanted:
        account.__class__ = wanted
