"""Whether this machine counts the energy it spends. Where it does not, that is said; no number is made up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


def counter(folder: Path = POWERCAP) -> Path | None:
    """The file that counts the microjoules of the processor package, where there is one that this user may read."""
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):
            file = folder / name / "energy_uj"
            with suppress(OSError, ValueError):
                int(file.read_text())
                return file
    return None


class Spent:
    """Joules between the begin and the end of `spending`; None where nothing counts them."""

    joules: float | None = None


@contextmanager
def spending(folder: Path = POWERCAP) -> Iterator[Spent]:
    """What the processor package spends inside, of all programs together: an upper bound for any of them."""
    spent, file = Spent(), counter(folder)
    before = _microjoules(file)
    yield spent
    after = _microjoules(file)
    if file is not None and before is not None and after is not None:
        # The counter begins again at its largest value.
        most = 0 if after >= before else _microjoules(file.with_name("max_energy_range_uj")) or 0
        spent.joules = max(0, after - before + most) / 1e6


def _microjoules(file: Path | None) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text()) if file is not None else None
    return None


def said(folder: Path = POWERCAP) -> str:
    """For people: where energy is counted, or that it is not measurable here."""
    file = counter(folder)
    if file is not None:
        return f"counted by `{file}`"
    there = folder.is_dir() and any(folder.iterdir())
    why = "its counters are not readable for this user" if there else "this machine shows no energy counter (RAPL)"
    return f"not measurable here: {why}"
