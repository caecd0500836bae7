"""netdyno: puts a PyTorch model on the dyno.

`Workload` and `Tolerance` are what a work.py declares. They are imported when they are first asked for, so that
commands that only read records start without PyTorch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdyno.targets.workload import Tolerance, Workload

__version__ = "0.1.0"
__all__ = ["Tolerance", "Workload", "__version__"]


def __getattr__(name: str) -> Any:
    if name in {"Tolerance", "Workload"}:
        from netdyno.targets import workload

        return getattr(workload, name)
    raise AttributeError(f"module `netdyno` has no attribute `{name}`")
