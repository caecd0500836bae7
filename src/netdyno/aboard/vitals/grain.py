"""Images that were blown up: squares of equal pixels."""

from typing import Any, ClassVar

from ..frames import Line
from ._base import Call, Vital, Watch

LOOKS = 6
# Rows of a batch, and channels, that are looked at.
ROWS, CHANNELS = 16, 3
BLOCKS = (16, 8, 7, 6, 5, 4, 3, 2)


class Grain(Vital):
    """Looks at the first images of a few batches."""

    kind: ClassVar[str] = "Grain"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.looks, self.block = 0, 0
        self.size = (0, 0)
        self.line = Line("", 0, "")

    def called(self, call: Call) -> None:
        """A model was called in training with what may be images."""
        if not call.grad or self.looks >= LOOKS or self.block == 1:
            return
        x = call.args[0] if call.args else None
        if x is None or getattr(x, "dim", int)() != 4 or x.requires_grad or not x.is_floating_point() or not len(x):
            return
        size = (int(x.shape[2]), int(x.shape[3]))
        if self.looks and size != self.size:
            self.block = 1  # more than one size: nobody's habit
            return
        found = block(x[:ROWS, :CHANNELS])
        self.block = min(self.block, found) if self.looks else found
        self.looks += 1
        self.size, self.line = size, call.line

    def summary(self) -> dict[str, Any] | None:
        """The coarsest grain that all looks agree on."""
        if not self.looks:
            return None
        where = {"file": self.line.file, "line": self.line.line} if self.line.file else None
        return {"looks": self.looks, "block": self.block, "height": self.size[0], "width": self.size[1], "where": where}


def block(x: Any) -> int:
    """The side of the largest squares of equal pixels that images (N, C, H, W) consist of; 1 where they do not, or are flat."""
    high, wide = x.shape[2], x.shape[3]
    for side in BLOCKS:
        if high % side or wide % side or side in (high, wide):
            continue
        corners = x[:, :, ::side, ::side]
        if bool((corners == corners[:1, :1, :1, :1]).all()):
            return 1
        if bool((x == corners.repeat_interleave(side, 2).repeat_interleave(side, 3)).all()):
            return side
    return 1


VITAL = Grain
