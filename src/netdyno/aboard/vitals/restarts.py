"""What it takes to start and to end loader workers: seconds of the training thread, besides waiting for batches."""

import time
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from ._base import Vital, Watch

MOST = 8  # loaders that are told apart


class Restarts(Vital):
    """Times the making of an iterator with workers that end with it, and their end."""

    kind: ClassVar[str] = "WorkerStarts"

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.told: list[dict[str, Any]] = []
        self.loaders: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
        self.whose: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by iterator
        self.first = self.last = 0
        from torch.utils.data import dataloader

        kind = dataloader._MultiProcessingDataLoaderIter
        patches = watch.observer.replacements
        patches.replace("vital worker starts", kind, "__init__", self._starting)
        patches.replace("vital worker ends", kind, "_shutdown_workers", self._ending)

    def _starting(self, original: Any) -> Any:
        def init(iterator: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            began = time.perf_counter_ns()
            original(iterator, loader, *args, **kwargs)
            # Workers that stay are started once.
            told = self._entry(loader) if not loader.persistent_workers and self._ours() else None
            if told is not None:
                self.whose[iterator] = told
                self.first = self.first or began
                told["starts"] += 1
                told["seconds"] += (time.perf_counter_ns() - began) / 1e9

        return init

    def _ending(self, original: Any) -> Any:
        def shutdown(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter_ns()
            try:
                return original(iterator, *args, **kwargs)
            finally:
                told = self.whose.pop(iterator, None)
                if told is not None and self._ours():
                    self.last = time.perf_counter_ns()
                    told["seconds"] += (self.last - began) / 1e9

        return shutdown

    def _ours(self) -> bool:
        """While the script goes on: what ends with the process keeps nobody waiting."""
        return not self.watch.ended and self.watch.observer.candidate()

    def _entry(self, loader: Any) -> dict[str, Any] | None:
        told = self.loaders.get(loader)
        if told is None and len(self.told) < MOST:
            told = self.loaders[loader] = {"where": None, "workers": loader.num_workers, "starts": 0, "seconds": 0.0}
            self.told.append(told)
        if told is not None and told["where"] is None:
            told["where"] = self._where(loader)
        return told

    def _where(self, loader: Any) -> dict[str, Any] | None:
        known = (entry.line for entry in self.watch.observer.facts.loaders if entry.ref() is loader)
        line = next(known, None)
        return {"file": line.file, "line": line.line} if line is not None and line.file else None

    def summary(self) -> dict[str, Any] | None:
        """The loaders, and the seconds from the first start to the last end."""
        if not self.told or self.last <= self.first:
            return None
        return {"loaders": self.told, "span_s": (self.last - self.first) / 1e9}


VITAL = Restarts
