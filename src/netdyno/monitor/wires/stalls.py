"""A loader that gives no batch, a training that makes no update: for much longer than this run ever waited."""

from typing import NamedTuple

# Shared storage and evictions of pages cost seconds, seldom half a minute; a worker that hangs costs for ever.
LOADER_S = 30.0
# Checkpoints, evaluations of which nothing is seen, compilations: some minutes are usual, also the first time.
TRAINING_S = 300.0
# Than the longest wait that this run got over.
TIMES = 10.0
# Of one core: who does anything at all (a checkpoint, a metric on the CPU) takes more.
IDLE = 0.05


class Stall(NamedTuple):
    """How long, and the longest one before, in seconds."""

    seconds: float
    longest: float


class Wait:
    """Stretches without a sign of life, of which the run got over all but the last."""

    def __init__(self, least_s: float) -> None:
        self.least_s = least_s
        self.longest = 0.0
        self.waited = 0.0
        self.sign: object = None

    def judge(self, sign: object, seconds: float, *, waits: bool = True) -> Stall | None:
        """After `seconds` more: `sign` changes whenever something was done; `waits` says whether anything is waited for."""
        if not waits or sign != self.sign:
            self.longest = max(self.longest, self.waited)
            self.waited, self.sign = 0.0, sign
            return None
        self.waited += seconds
        if self.waited > max(self.least_s, TIMES * self.longest):
            return Stall(self.waited, self.longest)
        return None
