"""The gate: every item looks at a release before anything is exported, and a failed one stops it."""

from collections.abc import Callable, Iterable
from functools import cache

from msgspec.structs import replace

from netdyno import plugins
from netdyno.gates._base import Candidate, Gate
from netdyno.measure.untouched import random_state
from netdyno.records.deployment import GateCheck
from netdyno.targets.release import Release

# What a person should read first: modes explain much of what others find.
FIRST = ("eval-mode", "finite-weights", "batchnorm-statistics", "missing-weights", "repeat-determinism")


def gate(
    release: Release, *, allow: Iterable[str] = (), looking: Callable[[str], None] = lambda _name: None
) -> tuple[GateCheck, ...]:
    """What every item says of a release. `allow` names those that fail on purpose, as `Release.allow` does: they only warn then.

    `looking` is told each item before it is looked at. The module is made once, and each item leaves it as it was. An item that cannot be carried out says why and stops nothing.
    Raises TargetError when the release gives no module or no example.
    """
    allowed = {*allow, *release.allow}
    with random_state():  # a release is made under a seed
        candidate = Candidate(model=release.module(), example=release.sample(), release=release)
        found = []
    for name in order():
        looking(name)
        found.append(_allowed(looked(name, candidate), allowed))
    return tuple(found)


def looked(name: str, candidate: Candidate) -> GateCheck:
    """What one item says; its failure is a reason, not an error."""
    found = items()[name]
    if isinstance(found, plugins.Broken):
        return GateCheck(name=name, ok=None, says=f"this item cannot be used: {found.says}")
    try:
        return found(candidate)
    except Exception as error:
        lines = str(error).splitlines()
        return GateCheck(
            name=name, ok=None, says=f"it could not be looked at: {type(error).__name__}: {lines[0] if lines else ''}"
        )


def stops(checks: Iterable[GateCheck]) -> bool:
    """True when an item failed that is no warning: nothing is to be exported."""
    return any(check.ok is False and not check.warning for check in checks)


def unknown(allow: Iterable[str]) -> tuple[str, ...]:
    """Names that no item has, so that a slip of the pen does not pass for a permission."""
    return tuple(name for name in allow if name not in items())


def order() -> tuple[str, ...]:
    """The items in the order in which they are looked at."""
    return (*(name for name in FIRST if name in items()), *(name for name in items() if name not in FIRST))


@cache
def items() -> dict[str, Gate | plugins.Broken]:
    """Every item by its name: a function called as its file is."""
    return {name: _found(name, module) for name, module in plugins.modules("gates")}


def _found(name: str, module: object) -> Gate | plugins.Broken:
    if isinstance(module, plugins.Broken):
        return module
    look: Gate | None = getattr(module, name.replace("-", "_"), None)
    return look or plugins.Broken(name, f"it has no function `{name.replace('-', '_')}`")


def _allowed(check: GateCheck, allowed: set[str]) -> GateCheck:
    if check.ok is not False or check.name not in allowed:
        return check
    return replace(check, warning=True, says=f"{check.says} (allowed)")
