"""Watch what a skorch net fits.

Use:        `NeuralNetClassifier(..., callbacks=[NetdynoCallback(run="digits")])`.
Finds:      module, optimizer and criterion; lr, batch size and epochs become settings, what the history calls valid its results.
Ends:       with the training, or as failed, stopped or interrupted with the exception that ended it.
"""

# ruff: noqa: ARG002, N803  the framework decides what its hooks are given, and under which names

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from netdyno.monitor.adapters._base import Watched, needed
from netdyno.monitor.alerts import Sink
from netdyno.monitor.run import STORE, OnTrip, Watch

needed("skorch", install="skorch")


class NetdynoCallback(needed("skorch.callbacks", install="skorch").Callback):  # type: ignore[misc]
    """Watches each `fit` and `partial_fit`; its arguments are those of `netdyno.watch`.

    They are written out, and kept as they came, because scikit-learn clones and searches what it finds in a constructor.
    """

    def __init__(
        self,
        *,
        run: str = "run",
        stage: str | None = None,
        tags: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        budget: float = 0.01,
        everything: bool = False,
        on_trip: OnTrip = "warn",
        alerts: Iterable[Sink] = (),
        quiet: bool = False,
        store: str | Path = STORE,
    ) -> None:
        self.run = run
        self.stage = stage
        self.tags = tags
        self.settings = settings
        self.budget = budget
        self.everything = everything
        self.on_trip = on_trip
        self.alerts = alerts
        self.quiet = quiet
        self.store = store

    @property
    def watch(self) -> Watch | None:
        """The watch of the run that goes on."""
        return self._watched.watch

    def initialize(self) -> "NetdynoCallback":
        """Take the wishes as they are now."""
        self.watched_ = Watched(
            {
                "run": self.run, "stage": self.stage, "tags": self.tags, "settings": self.settings, "budget": self.budget,
                "everything": self.everything, "on_trip": self.on_trip, "alerts": self.alerts, "quiet": self.quiet,
                "store": self.store,
            }
        )  # fmt: skip
        return self

    @property
    def _watched(self) -> Watched:
        if not hasattr(self, "watched_"):
            self.initialize()
        return self.watched_

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        """Begin."""
        self._watched.begin(
            net.module_, getattr(net, "optimizer_", None),
            settings={"lr": net.lr, "batch_size": net.batch_size, "max_epochs": net.max_epochs},
        )  # fmt: skip
        self._hear_failures(net)

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **_: Any) -> None:
        """Results of a validation, where the net has one."""
        self._watched.evaluated(
            {name: value for name, value in net.history[-1].items() if _is_result(name)}, without="valid_"
        )

    def on_train_end(self, net: Any, X: Any = None, y: Any = None, **_: Any) -> None:
        """End."""
        self._watched.end()

    def _hear_failures(self, net: Any) -> None:
        """A net tells its callbacks of no exception, so the way out of its loop is watched, for this one run."""
        loop = net.fit_loop

        def fit_loop(*args: Any, **kwargs: Any) -> Any:
            net.__dict__.pop("fit_loop", None)
            try:
                return loop(*args, **kwargs)
            except BaseException as error:
                self._watched.end(error)
                raise

        net.__dict__["fit_loop"] = fit_loop


def _is_result(name: str) -> bool:
    return name.startswith("valid_") and not name.endswith(("_best", "batch_count"))
