"""Watch what a transformers Trainer trains.

Use:        `Trainer(..., callbacks=[NetdynoCallback(run="sentiment")])`.
Finds:      model, optimizer, scheduler and loader; arguments that are not the default become settings, metrics of an
            evaluation its results.
Ends:       with the training, or as failed, stopped or interrupted with the exception that ended it.
"""

# ruff: noqa: ARG002  the framework decides what its hooks are given, and under which names

import dataclasses
import functools
from typing import Any, Unpack

from netdyno.monitor.adapters._base import Watched, Wishes, bare, needed
from netdyno.monitor.run import Watch

_transformers = needed("transformers", install="transformers")

# What a Trainer says of an evaluation besides its results: how long it took.
TIMES = ("runtime", "per_second", "preparation_time", "compilation_time")
# What one asks about a run even where it is the default.
ALWAYS = ("learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs", "seed")


class NetdynoCallback(_transformers.TrainerCallback):  # type: ignore[misc,name-defined]
    """Watches each `train`; its arguments are those of `netdyno.watch`."""

    def __init__(self, **wishes: Unpack[Wishes]) -> None:
        super().__init__()
        self._watched = Watched(wishes)
        _tell_failures()

    @property
    def watch(self) -> Watch | None:
        """The watch of the run that goes on."""
        return self._watched.watch

    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Begin."""
        self._watched.begin(
            parts.get("model"),
            bare(parts.get("optimizer")),
            scheduler=parts.get("lr_scheduler"),
            loader=parts.get("train_dataloader"),
            settings=_settings(args),
        )

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **parts: Any) -> None:
        """Results of an evaluation."""
        results = {
            name: value for name, value in (metrics or {}).items() if name != "epoch" and not name.endswith(TIMES)
        }
        self._watched.evaluated(results, without="eval_")

    def on_train_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """End."""
        self._watched.end()

    def failed(self, error: BaseException) -> None:
        """End, and say why."""
        self._watched.end(error)


@functools.cache
def _tell_failures() -> None:
    """A Trainer tells its callbacks of no exception, so the way out of `train` is watched, once for all Trainers."""
    kind = _transformers.Trainer
    original = kind.train

    @functools.wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except BaseException as error:
            for callback in self.callback_handler.callbacks:
                if isinstance(callback, NetdynoCallback):
                    callback.failed(error)
            raise

    kind.train = train


def _settings(arguments: Any) -> dict[str, Any]:
    usual = {each.name: each.default for each in dataclasses.fields(arguments)}
    return {
        name: value
        for name, value in arguments.to_dict().items()
        if (name in ALWAYS or value != usual.get(name)) and not name.endswith("token")
    }
