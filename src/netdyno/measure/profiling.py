"""PyTorch's profiler, without a word on the terminal."""

import os
from typing import Any

import torch

# Above all of its levels. The profiler's library reads this once, when it is first used, and says at every start and
# stop that it starts and stops; what goes wrong reaches us as an exception.
SILENT = "99"


def profiler(**settings: Any) -> torch.profiler.profile:
    """A profiler of what happens on the host. Whoever has chosen a `KINETO_LOG_LEVEL` keeps it."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENT)
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **settings)
