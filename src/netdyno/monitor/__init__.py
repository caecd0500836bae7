"""A training run observed from inside: `with netdyno.watch(model, optimizer, run="name") as watch: ...`."""

from netdyno.monitor.run import Watch, watch
from netdyno.monitor.subject import Subject

__all__ = ["Subject", "Watch", "watch"]
