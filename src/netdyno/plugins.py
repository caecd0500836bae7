"""How a file becomes a plug-in: its room is scanned, and its name is its id."""

import importlib
import pkgutil
from collections.abc import Iterator
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, NamedTuple


class Broken(NamedTuple):
    """A plug-in that could not be imported: skipped, but never in silence."""

    id: str
    says: str


def plugin_id(module_name: str) -> str:
    """The id that a file's name stands for.

    >>> plugin_id("netdyno.rules.input_bound")
    'input-bound'
    """
    return module_name.rpartition(".")[2].replace("_", "-")


def modules(room: str) -> Iterator[tuple[str, ModuleType | Broken]]:
    """Every plug-in of `room` ("rules"): ours, then those of other packages, each as id and module.

    Outside packages join by an entry point in the group `netdyno.<room>` that names a module.
    """
    package = importlib.import_module(f"netdyno.{room}")
    names = [f"{package.__name__}.{info.name}" for info in pkgutil.iter_modules(package.__path__)]
    outside = [point.value for point in entry_points(group=f"netdyno.{room}")]
    for name in sorted(name for name in names if not name.rpartition(".")[2].startswith("_")) + outside:
        try:
            yield plugin_id(name), importlib.import_module(name)
        except Exception as error:
            yield plugin_id(name), Broken(plugin_id(name), f"{type(error).__name__}: {error}")


def classes(room: str) -> dict[str, type[Any] | Broken]:
    """The class of every plug-in of `room` by its id; it is called as the file is, in CamelCase."""
    return {name: _class_in(name, module) for name, module in modules(room)}


def _class_in(name: str, module: ModuleType | Broken) -> Any:
    if isinstance(module, Broken):
        return module
    wanted = "".join(part.capitalize() for part in name.split("-"))
    return getattr(module, wanted, None) or Broken(name, f"`{module.__name__}` has no class `{wanted}`")


def class_id(kind: type[Any]) -> str:
    """The id that a plug-in's class stands for.

    >>> class_id(type("PinMemory", (), {}))
    'pin-memory'
    """
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).lstrip("-")
