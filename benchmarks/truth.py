"""Does the claim hold? Baseline and tuned recipe re-timed as whole processes, with an independent stopwatch.

    python benchmarks/truth.py garage:digits garage:transformer garage:recommender --pairs 7

Tunes each workload, then runs benchmarks/independent.py for both sides in fresh processes, order random within each
pair, and asks whether the speed-up lies inside the interval that `tune` claimed. Writes docs/results/truth.md.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

import specimens
from netdyno import bench
from netdyno.records.record import Plan, Record
from netdyno.stats.paired import hodges_lehmann
from netdyno.store import Store

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results" / "truth.md"


def timed(reference: str, recipe: Path, seconds: float) -> float:
    command = [sys.executable, str(HERE / "independent.py"), reference, str(recipe), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["seconds_per_step"]


def retimed(record: Record, *, pairs: int, seconds: float) -> list[float]:
    """Log of baseline over tuned, one per pair of processes."""
    import math

    with tempfile.TemporaryDirectory() as folder:
        sides = {"baseline": Path(folder) / "baseline.json", "tuned": Path(folder) / "tuned.json"}
        sides["baseline"].write_bytes(b"[]")
        sides["tuned"].write_bytes(msgspec.json.encode(record.recipe))
        ratios = []
        for _ in range(pairs):
            took = {side: timed(record.target.source, sides[side], seconds) for side in random.sample(list(sides), 2)}
            ratios.append(math.log(took["baseline"] / took["tuned"]))
    return ratios


def main() -> None:
    import math

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=["garage:digits", "garage:transformer", "garage:recommender"])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--budget", type=float, default=180.0)
    options = parser.parse_args()
    lines = [
        "# Truth: claims re-timed as whole processes", "",
        f"Made by `make bench-truth`, {specimens.here()}: {options.pairs} pairs of fresh processes of {options.seconds:.0f} s each, order random.", "",
        "| workload | kept | claimed (95 %) | re-timed, median (95 %) | inside the claim |", "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for reference in options.workloads:
        with tempfile.TemporaryDirectory() as folder:
            record = bench.tune(reference, Plan(budget_s=options.budget), store=Store(folder))
        if record.attribution is None:
            lines.append(f"| {reference} | nothing | no proven win | | |")
            continue
        claim = record.attribution.speedup
        ratios = retimed(record, pairs=options.pairs, seconds=options.seconds)
        spread = hodges_lehmann(ratios, level=0.95)
        again = math.exp(statistics.median(ratios))
        kept = ", ".join(change.label for change in record.recipe)
        lines.append(
            f"| {reference} | {kept} | {claim.middle:.2f}× ({claim.low:.2f} to {claim.high:.2f}) "
            f"| {again:.2f}× ({math.exp(spread.low):.2f} to {math.exp(spread.high):.2f}) "
            f"| {'yes' if claim.holds(again) else '**no**'} |"
        )
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
