"""The built-in reference workloads: one file each, under its own name, imported when it is asked for."""

import ast
import importlib
import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from netdyno.errors import TargetError

if TYPE_CHECKING:  # listing the names must not load torch
    from netdyno.targets.workload import Workload


_INSTALLS = {"sklearn": "scikit-learn", "PIL": "pillow"}  # where a package is not called as it is imported


def names() -> dict[str, str]:
    """Every workload's name and what it is, in a line. Imports none of them."""
    found = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return {name: _first_line(Path(__path__[0]) / f"{name}.py") for name in found}


def workload(name: str) -> "Workload":
    """The Workload of that name. Raises TargetError for an unknown one, and for one that needs what is not here.

    The same one each time, so that its data are decoded once per process.
    """
    there = names()
    if name not in there:
        raise TargetError(
            f"the garage has no `{name}`" if name else "`garage:` does not say which workload",
            because=f"its workloads are: {', '.join(there)}",
            hint="name one of them: `garage:digits`",
        )
    try:
        module = importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise TargetError(
            f"`garage:{name}` cannot be built here",
            because=f"it needs the package `{error.name}`",
            hint=f"`pip install {_INSTALLS.get(error.name or '', error.name)}`",
        ) from error
    missing: TargetError | None = getattr(module, "missing", lambda: None)()
    if missing is not None:
        raise missing
    found: Workload = module.WORKLOAD
    return found


def _first_line(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]
