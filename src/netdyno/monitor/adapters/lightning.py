"""Watch what a Lightning Trainer fits.

Use:        `Trainer(callbacks=[NetdynoCallback(run="pcb-defects")])`, from `lightning` or `pytorch_lightning`.
Finds:      module, optimizers, schedulers, scaler and loader; `hparams` become settings, what a validation logs its results.
Ends:       with the training, or as failed, stopped or interrupted with the exception that ended it.
"""

# ruff: noqa: ARG002  the framework decides what its hooks are given, and under which names

import sys
from collections.abc import Mapping
from typing import Any, Unpack

from netdyno.monitor.adapters._base import Watched, Wishes, needed, numbers
from netdyno.monitor.run import Watch

NAMES = ("lightning.pytorch", "pytorch_lightning")


def _callbacks() -> tuple[type, ...]:
    """Lightning has two names, and a class of its own under each. Those are meant that are in use; importing takes seconds."""
    used = tuple(sys.modules[name].Callback for name in NAMES if hasattr(sys.modules.get(name), "Callback"))
    if used:
        return used
    try:
        return (needed(NAMES[0], install="lightning").Callback,)
    except Exception:
        return (needed(NAMES[1], install="lightning").Callback,)


class NetdynoCallback(*_callbacks()):  # type: ignore[misc]
    """Watches each `fit`; its arguments are those of `netdyno.watch`."""

    def __init__(self, **wishes: Unpack[Wishes]) -> None:
        super().__init__()
        self._watched = Watched(wishes)
        self._before: dict[str, Any] = {}
        self._known: set[str] = set()

    @property
    def watch(self) -> Watch | None:
        """The watch of the run that goes on."""
        return self._watched.watch

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin."""
        self._watched.begin(
            pl_module,
            list(trainer.optimizers),
            scaler=getattr(trainer.precision_plugin, "scaler", None),
            scheduler=[config.scheduler for config in trainer.lr_scheduler_configs],
            loader=trainer.train_dataloader,
            settings=_settings(trainer, pl_module),
        )

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Remember what was logged before, by training."""
        self._before = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """What was logged meanwhile is the result."""
        if self.watch is None or trainer.sanity_checking:
            return
        logged = dict(trainer.callback_metrics)
        # One that stays as it was is still a result when it was one before.
        self._known |= {name for name, value in logged.items() if not _same(value, self._before.get(name))}
        self._watched.evaluated({name: value for name, value in logged.items() if name in self._known})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """End."""
        self._watched.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """End, and say why."""
        self._watched.end(exception)


def _same(one: Any, other: Any) -> bool:
    pair = numbers({"one": one, "other": other})
    return len(pair) == 2 and pair["one"] == pair["other"]


def _settings(trainer: Any, pl_module: Any) -> Mapping[str, Any]:
    own = getattr(pl_module, "hparams", None) or {}
    return {
        "max_epochs": trainer.max_epochs,
        "precision": str(trainer.precision),
        "accumulate_grad_batches": trainer.accumulate_grad_batches,
        "gradient_clip_val": trainer.gradient_clip_val,
        **own,
    }
