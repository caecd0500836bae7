"""Diagnosis by construction: workloads that were built to have one sickness, and what the doctor says first.

    python benchmarks/diagnosis.py

Every workload runs in a process of its own, with the probes and rules of `netdyno doctor`, and with one thread: so a
busy neighbour changes little. With more (`--threads 1 2`) on a machine that others use, threads that spin for one
another are the first thing to be said, and rightly. Writes docs/results/diagnosis.md; exit status 1 when a first finding
is not the one that the workload was built to have.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

BUILT = {
    "matmul": "compute-bound",
    "copybound": "memory-bandwidth-bound",
    "sleepy": "input-bound",
    "digits": "input-bound",
    "python_bound": "python-bound",
    "transformer": "compute-bound",
}
RESULT = Path(__file__).parents[1] / "docs" / "results" / "diagnosis.md"


class Row(NamedTuple):
    """What was said first about one workload."""

    workload: str
    threads: int
    built: str
    first: str
    state: str
    says: str

    @property
    def right(self) -> bool:
        """The first finding is the one that was built in."""
        return self.first == self.built


def examined(name: str, threads: int, budget: str, store: str) -> Row:
    """The doctor's first finding about a workload."""
    command = [sys.executable, "-m", "netdyno", "doctor", f"garage:{name}", "--budget", budget]
    done = subprocess.run(
        [*command, "--json", "--progress", "none", "--store", store],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return Row(name, threads, BUILT[name], "failed", "failed", done.stderr.strip().splitlines()[-1])
    first = json.loads(done.stdout)[0]
    finding = first["finding"] or {"says": ""}
    return Row(name, threads, BUILT[name], first["rule"], first["state"], finding["says"])


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| workload | threads | built to be | first finding | | it says |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.workload} | {row.threads} | {row.built} | {row.first} ({row.state}) | {'✓' if row.right else '✗'} | {row.says} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> int:
    """Examine all, print, write; the answer is the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="60s", help="per workload")
    parser.add_argument("--only", nargs="*", default=list(BUILT))
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as store:
        rows = []
        for name in asked.only:
            for threads in asked.threads:
                rows.append(examined(name, threads, asked.budget, store))
                print(*rows[-1], sep="  ", flush=True)
    load = os.getloadavg()[0]
    right = sum(row.right for row in rows)
    text = (
        f"# Diagnosis by construction\n\n`python benchmarks/diagnosis.py`, {os.cpu_count()} cores, load {load:.1f} at the end: "
        f"{right} of {len(rows)} first findings are the ones that were built in.\n\n{table(rows)}\n"
    )
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(text)
    print(text)
    return int(right < len(rows))


if __name__ == "__main__":
    sys.exit(main())
