"""A training run observed from inside: `with netdyno.watch(model, optimizer, run="name") as watch: ...`.

`restore` goes on from a tripwire's snapshot; `netdyno.monitor.replay.replay` repeats the update that broke it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netdyno.monitor.pause import TripStop
    from netdyno.monitor.run import Watch, watch
    from netdyno.monitor.snapshot import restore
    from netdyno.monitor.subject import Subject

# Who only reads journals starts without PyTorch.
_HOMES = {"Subject": "subject", "TripStop": "pause", "Watch": "run", "restore": "snapshot", "watch": "run"}

__all__ = ["Subject", "TripStop", "Watch", "restore", "watch"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"netdyno.monitor.{_HOMES[name]}"), name)
    raise AttributeError(f"module `netdyno.monitor` has no attribute `{name}`")
