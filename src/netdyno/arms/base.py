"""What a side of a trial is: a target under given changes that steps only when told."""

from typing import Protocol

from netdyno.records.measured import Turn
from netdyno.records.trial import Change, Memory


class Arm(Protocol):
    """One side. Raises ArmError when it crashes, hangs, is killed or runs out of memory."""

    recipe: tuple[Change, ...]
    setup_s: float  # seconds that building and the first steps took beyond normal stepping (compilation)

    def turn(self, steps: int) -> Turn:
        """Take `steps` training steps and say where the time went."""

    def checksum(self) -> str:
        """The hash of the first batches it was fed (before placement): equal on sides fed the same data."""

    def memory(self) -> Memory:
        """Bytes of this side."""

    def close(self) -> None:
        """Undo the changes and end everything that was started. Safe to call twice."""
