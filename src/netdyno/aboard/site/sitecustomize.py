"""The door: an interpreter whose PYTHONPATH begins with this folder runs this file at its start.

A process that never imports torch pays a few milliseconds at its start and a look at the name of each new import.
"""

import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = "netdyno_aboard"  # the interpreter may have no netdyno, or another one


def open_the_door() -> None:
    """Load the one who rides aboard by path, and let it wait for torch. No trouble of ours reaches the script."""
    try:
        folder = os.path.dirname(HERE)
        loader = SourceFileLoader(NAME, os.path.join(folder, "__init__.py"))
        package = type(sys)(NAME)
        package.__path__ = [folder]  # type: ignore[attr-defined]
        package.__spec__ = ModuleSpec(NAME, loader, origin=loader.path, is_package=True)
        package.__spec__.submodule_search_locations = [folder]
        sys.modules[NAME] = package
        from netdyno_aboard import boot  # type: ignore[import-not-found]

        if os.environ.get("NETDYNO_ABOARD"):
            boot.arm()
        else:
            boot.after_import("torch", begin_to_watch)
    except Exception:  # noqa: S110  the lab hears no heartbeat, and says so
        pass


def begin_to_watch(_: object) -> None:
    """Torch is there. Here the house is needed, and an interpreter of another environment has none."""
    try:
        importlib.import_module("netdyno.monitor.script").begin()
    except Exception as error:
        sys.stderr.write(f"netdyno: this run is not watched, and goes on all the same ({error})\n")


def let_the_shadowed_in() -> None:
    """Run the `sitecustomize` that this one hides, as if this one were not there; its errors are its own."""
    # Children get the folder by the environment; the script finds its path as its author has it.
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("NETDYNO_ABOARD") or os.environ.get("NETDYNO_WATCH"):
    open_the_door()
let_the_shadowed_in()
