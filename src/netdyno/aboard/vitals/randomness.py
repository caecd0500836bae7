"""Who takes random numbers from PyTorch's own generator, and how runs that began with one seed part."""

import sys
from typing import Any, ClassVar

from ..frames import Line, user_line
from ._base import Call, Vital, Watch

# Runs of one script that are compared, and losses and evaluations that are remembered of each.
RUNS, LOSSES = 8, 4000


class Run:
    """What came after one call of manual_seed: losses, and before which of them an evaluation took random numbers."""

    def __init__(self, seed: int, at: int) -> None:
        self.seed = seed
        self.at = at
        self.taken: list[int] = []


class Randomness(Vital):
    """Notes seeds and evaluations; a look at the generator costs some microseconds, twice in an evaluation."""

    kind: ClassVar[str] = "RandomUse"

    def __init__(self, watch: Watch) -> None:
        import torch

        super().__init__(watch)
        self.runs: list[Run] = []
        self.seeds = self.rounds = 0
        self.round_at = -1
        self.marks: list[int] = []
        self.line: Line | None = None
        self.state = torch.get_rng_state
        for owner in (torch, torch.random):
            watch.observer.replacements.replace("vital seed", owner, "manual_seed", self._seeding)
        self.after_update: int | None = None

    def _seeding(self, original: Any) -> Any:
        def manual_seed(seed: Any) -> Any:
            result = original(seed)
            if not self.watch.busy and self.watch.observer.candidate() and isinstance(seed, int):
                self.seeds += 1
                if len(self.runs) < RUNS and (not self.runs or self.runs[-1].at != self.watch.updates):
                    self.runs.append(Run(seed, self.watch.updates))
                elif self.runs:
                    self.runs[-1] = Run(seed, self.watch.updates)
            return result

        return manual_seed

    def every_called(self, call: Call) -> None:
        """The first and each later evaluation of a round."""
        at = self.watch.updates
        if call.grad or not self.runs:
            return
        if at != self.round_at:
            self.round_at = at
            self.rounds += 1
            if self.line is None:
                self.line = user_line(sys._getframe(1))
            self.line = call.line
            if len(self.runs[-1].taken) < LOSSES:
                self.runs[-1].taken.append(at - self.runs[-1].at)

    def summary(self) -> dict[str, Any] | None:
        """Pairs of runs with one seed that began alike and parted."""
        if not self.runs:
            return None
        return {
            "seeds": self.seeds,
            "rounds": self.rounds,
            "parted": self._parted(),
            "where": {"file": self.line.file, "line": self.line.line}
            if self.line is not None and self.line.file
            else None,
        }

    def _parted(self) -> list[dict[str, Any]]:
        losses, told = self.watch.observer.losses, []
        ends = [*(run.at for run in self.runs[1:]), self.watch.updates]
        spans = [(run, losses[run.at : min(end, run.at + LOSSES)]) for run, end in zip(self.runs, ends, strict=True)]
        for place, (run, mine) in enumerate(spans):
            for other, theirs in spans[place + 1 :]:
                if run.seed != other.seed or len(mine) != len(theirs) or not mine:
                    continue
                same = next((at for at, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), len(mine))
                if same < len(mine):
                    told.append({
                        "seed": run.seed,
                        "same": same,
                        "evaluations": sum(one <= same for one in run.taken),
                        "other_evaluations": sum(one <= same for one in other.taken),
                        "apart": _apart(mine[-1], theirs[-1]),
                    })  # fmt: skip
        return told


def _apart(a: float | None, b: float | None) -> float | None:
    if a is None or b is None or not (abs(a) + abs(b)):
        return None
    return 2 * abs(a - b) / (abs(a) + abs(b))


VITAL = Randomness
