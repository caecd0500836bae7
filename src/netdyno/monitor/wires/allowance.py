"""What a look may cost: a few microseconds of each update, and of the run's time a share."""

# Beside what an update costs at least (a backward pass and a step of a small model) this is not seen.
FREE_NS = 8_000
# Of what looking may take altogether: vitals and gauges have the rest.
PART = 0.2
# A measured time counts so much towards what is expected of the next one.
WEIGHT = 0.25


class Allowance:
    """Says whether there is room for one more look of one kind, by what the last ones took."""

    def __init__(self, share: float, *, free_ns: int = FREE_NS) -> None:
        self.share = share
        self.free_ns = free_ns
        self.spent_ns = 0
        self.expected_ns = 0.0
        self.looks = 0

    def affords(self, elapsed_ns: int, updates: int) -> bool:
        """Whether one more look fits into the time and the updates so far."""
        return self.spent_ns + self.expected_ns <= self.share * elapsed_ns + self.free_ns * (updates + 1)

    def spent(self, ns: int) -> None:
        """A look took so long."""
        self.spent_ns += ns
        self.looks += 1
        # The first look is a cold one, and says little.
        self.expected_ns = (
            ns if self.looks <= 2 else min(ns, 4 * self.expected_ns) * WEIGHT + self.expected_ns * (1 - WEIGHT)
        )
