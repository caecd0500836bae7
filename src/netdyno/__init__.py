"""netdyno: puts a PyTorch model on the dyno.

`Workload` and `Tolerance` are what a work.py declares, `Release` what a ship.py does; `watch` observes a training run from inside. They are imported when they are first asked for, so that
commands that only read records start without PyTorch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdyno.monitor.run import Watch, watch
    from netdyno.targets.release import Release
    from netdyno.targets.workload import Tolerance, Workload

__version__ = "0.1.0"
__all__ = ["Release", "Tolerance", "Watch", "Workload", "__version__", "watch"]


def __getattr__(name: str) -> Any:
    if name in {"Tolerance", "Workload"}:
        from netdyno.targets import workload

        return getattr(workload, name)
    if name == "Release":
        from netdyno.targets.release import Release

        return Release
    if name in {"Watch", "watch"}:
        # By name: rooms below that one import this package for its version, and must not know the room.
        return getattr(importlib.import_module("netdyno.monitor.run"), name)
    raise AttributeError(f"module `netdyno` has no attribute `{name}`")
