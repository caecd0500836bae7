"""What is known of the script, and where knobs take hold."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Enter = Callable[[], AbstractContextManager[Any]]


class View:
    """The script's live objects, and lists of hooks that the observer's wrappers honour on every call."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.optimizers: list[Any] = []
        self.loaders: list[Any] = []
        self.around_forward: list[Enter] = []
        self.around_evaluation: list[Enter] = []
        self.inputs: list[Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]] = []
        self.calls: dict[int, Callable[..., Any]] = {}
        self.loader_arguments: list[Callable[[Any, dict[str, Any]], dict[str, Any]]] = []
        self.optimizer_arguments: list[Callable[[type, dict[str, Any]], dict[str, Any]]] = []
        self.explicit: dict[str, set[str]] = {"loader": set(), "optimizer": set()}

    @property
    def hooked(self) -> bool:
        """Whether a knob has taken hold of a forward."""
        return bool(self.around_forward or self.around_evaluation or self.inputs or self.calls)
