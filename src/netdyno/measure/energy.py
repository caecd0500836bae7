"""Whether this machine counts the energy it spends. Where it does not, that is said; no number is made up."""

import os
from contextlib import suppress
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


def joules(file: Path) -> float:
    """What the counter has reached, in joules; two readings are subtracted."""
    return int(file.read_text()) / 1e6


def said(folder: Path = POWERCAP) -> str:
    """For people: where energy is counted, or that it is not measurable here."""
    file = counter(folder)
    if file is not None:
        return f"counted by `{file}`"
    there = folder.is_dir() and any(folder.iterdir())
    why = "its counters are not readable for this user" if there else "this machine shows no energy counter (RAPL)"
    return f"not measurable here: {why}"
