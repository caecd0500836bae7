"""OpenMP is given all processors of the machine.

Looks for:  `OMP_NUM_THREADS=$(nproc --all)` and the like.
Wrong:      `nproc --all`: it counts hyper-threads, and processors that the process may not use.
Right:      physical cores within the affinity, measured
Not this:   `nproc` alone, which respects the affinity; a fixed number.
"""

from collections.abc import Iterator

from netdyno.lint._base import REMARK, Hit, lint
from netdyno.lint._text import Text


@lint(
    fix="set the physical cores within the affinity: `lscpu -p=core | grep -v '#' | sort -u | wc -l`, then measure",
    layer="compute",
    stage="speed",
    ledger=("C-088",),
    confidence=REMARK,
)
def all_cores_for_openmp(source: Text) -> Iterator[Hit]:
    for line, _ in source.search(r"(OMP|MKL)_NUM_THREADS\s*[=:]\s*[\"']?(\$\(|`)\s*nproc --all"):
        yield Hit(line, "hyper-threads are counted as cores, and processors that this process may not use")


BAD = ("export OMP_NUM_THREADS=$(nproc --all)\n",)
GOOD = ("export OMP_NUM_THREADS=4\n", "export OMP_NUM_THREADS=$(nproc)\n")
