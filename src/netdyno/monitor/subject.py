"""What a watched run is made of, as far as its author named it."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Subject(NamedTuple):
    """Live objects: `models` by name, optimizers, and what a snapshot needs to go on.

    What was not named is found when it is used: models when they are called in training, optimizers when they step.
    """

    models: dict[str, Any]
    optimizers: tuple[Any, ...] = ()
    scaler: Any = None
    schedulers: tuple[Any, ...] = ()
    loader: Any = None

    @classmethod
    def of(
        cls, model: Any, optimizer: Any, *, scaler: Any = None, scheduler: Any = None, loader: Any = None
    ) -> "Subject":
        """One model or several (a sequence, or a mapping of names), one optimizer or several."""
        return cls(
            models=_named(model),
            optimizers=_several(optimizer),
            scaler=scaler,
            schedulers=_several(scheduler),
            loader=loader,
        )

    @property
    def model(self) -> Any:
        """The first model, if one was named."""
        return next(iter(self.models.values()), None)


def _named(model: Any) -> dict[str, Any]:
    if model is None:
        return {}
    if isinstance(model, dict):
        return dict(model)
    several = _several(model)
    return {"model": several[0]} if len(several) == 1 else {f"model{at}": each for at, each in enumerate(several)}


def _several(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    # A Sequential or a ModuleList is iterable, and one model.
    if isinstance(value, Iterable) and isinstance(value, list | tuple | set | frozenset):
        return tuple(value)
    return (value,)
