"""The gate before an export: every item looks at the trained module in its own way, and says what to do when it fails."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from netdyno.records.deployment import GateCheck

if TYPE_CHECKING:
    from netdyno.targets.release import Release


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A trained module as the user gives it, in whatever mode, with two rows of inputs or more, and what was declared beside it."""

    model: nn.Module
    example: tuple[Tensor, ...]
    release: "Release"


Gate = Callable[[Candidate], GateCheck]
