"""A loss scale that never finds its place: skipped steps are normal, but not without end."""

from collections import deque

# Scalers start at 2**16, boldly at 2**24, and halve: after forty skips in a row a scale is below what any gradient in half
# precision could need, and what is not finite there does not come from the scale. No weight is spoiled meanwhile.
IN_A_ROW = 40
# A scaler probes a larger scale once in 2000 steps; even one that probes every third step skips no more than a quarter.
WINDOW, SHARE = 200, 0.4


class Skips:
    """Steps of an optimizer under a scaler, taken and left out."""

    def __init__(self) -> None:
        self.row = 0
        self.taken: deque[bool] = deque(maxlen=WINDOW)

    def judge(self, *, skipped: bool) -> str | None:
        """In words, when this does not end; None while it is normal."""
        self.row = self.row + 1 if skipped else 0
        self.taken.append(skipped)
        if self.row >= IN_A_ROW:
            return f"{self.row} steps in a row were left out, and the loss scale collapses"
        share = sum(self.taken) / WINDOW
        if skipped and len(self.taken) == WINDOW and share > SHARE:
            return f"{share:.0%} of the last {WINDOW} steps were left out, and this does not end"
        return None
