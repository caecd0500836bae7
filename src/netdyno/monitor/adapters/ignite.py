"""Watch what an Ignite Engine trains.

Use:        `NetdynoHandler(model, optimizer, run="digits").attach(trainer, evaluators={"validation": evaluator})`.
Finds:      the loader that the engine is run over; model, optimizer, scaler and scheduler are its author's to name, as an engine knows
            none of them. Metrics of the evaluators are results of evaluations.
Ends:       with the engine's run, or as failed, stopped or interrupted with the exception that ended it.
"""

import functools
from collections.abc import Mapping
from typing import Any, Unpack

from netdyno.monitor.adapters._base import Watched, Wishes, needed
from netdyno.monitor.run import Watch

Events = needed("ignite.engine", install="pytorch-ignite").Events


class NetdynoHandler:
    """Watches each run of an engine; further arguments are those of `netdyno.watch`."""

    def __init__(
        self,
        model: Any = None,
        optimizer: Any = None,
        *,
        scaler: Any = None,
        scheduler: Any = None,
        **wishes: Unpack[Wishes],
    ) -> None:
        self._parts = {"scaler": scaler, "scheduler": scheduler}
        self._subject = (model, optimizer)
        self._watched = Watched(wishes)

    @property
    def watch(self) -> Watch | None:
        """The watch of the run that goes on."""
        return self._watched.watch

    def attach(self, trainer: Any, evaluators: Mapping[str, Any] | None = None) -> None:
        """Watch `trainer`, and put the metrics of each evaluator down under its name (of the only one: without)."""
        # Not by its events: a handler for exceptions would swallow them, and an engine may leave its last event out.
        run = trainer.run

        @functools.wraps(run)
        def watched(data: Any = None, *args: Any, **kwargs: Any) -> Any:
            self._watched.begin(*self._subject, loader=data, settings=_settings(kwargs), **self._parts)
            try:
                result = run(data, *args, **kwargs)
            except BaseException as error:
                self._watched.end(error)
                raise
            self._watched.end()
            return result

        trainer.run = watched
        several = len(evaluators or {}) > 1
        for name, evaluator in (evaluators or {}).items():
            evaluator.add_event_handler(Events.COMPLETED, self._evaluated, f"{name}/" if several else "")

    def _evaluated(self, evaluator: Any, prefix: str) -> None:
        self._watched.evaluated({f"{prefix}{name}": value for name, value in evaluator.state.metrics.items()})


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("max_epochs", "max_iters", "epoch_length") if given.get(name) is not None}
