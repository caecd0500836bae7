"""Whether this machine counts the energy it spends. Where it does not, that is said; no number is made up."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


def packages(folder: Path = POWERCAP) -> tuple[Path, ...]:
    """The files that count the microjoules of the processor packages, as far as this user may read them.

    Parts of a package (cores, memory) are zones below it, with a second number in their names.
    """
    found = (zone / "energy_uj" for zone in sorted(folder.glob("intel-rapl:[0-9]*")) if zone.name.count(":") == 1)
    return tuple(file for file in found if microjoules(file) is not None)


def microjoules(file: Path) -> int | None:
    """What a counter has reached; None where it cannot be read."""
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def used(file: Path, before: int, now: int) -> int:
    """Microjoules between two readings of a counter, which begins again at its largest value."""
    return now - before if now >= before else now - before + (microjoules(file.with_name("max_energy_range_uj")) or 0)


class Spent:
    """Joules between the begin and the end of `spending`; None where nothing counts them."""

    joules: float | None = None


@contextmanager
def spending(folder: Path = POWERCAP) -> Iterator[Spent]:
    """What all processor packages spend inside, for all programs together: an upper bound for any of them."""
    spent, files = Spent(), packages(folder)
    before = [microjoules(file) for file in files]
    yield spent
    after = [microjoules(file) for file in files]
    each = [
        used(file, then, now)
        for file, then, now in zip(files, before, after, strict=True)
        if then is not None and now is not None
    ]
    if files and len(each) == len(files):
        spent.joules = max(0, sum(each)) / 1e6


def said(folder: Path = POWERCAP) -> str:
    """For people: where energy is counted, or that it is not measurable here."""
    files = packages(folder)
    if files:
        return f"counted by {', '.join(f'`{file}`' for file in files)}"
    there = folder.is_dir() and any(folder.iterdir())
    why = "its counters are not readable for this user" if there else "this machine shows no energy counter (RAPL)"
    return f"not measurable here: {why}"
