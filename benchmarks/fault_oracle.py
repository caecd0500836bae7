"""Whether faults matter and controls are healthy: plain runs with five seeds, without netdyno."""

import json
import math
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.fault_bench import Bench, Entry, Job, alone, job_of, keep, kept, run, say
from benchmarks.fault_score import PROGRAM, worse_by_ranks
from benchmarks.faults import _base, controls, unknown

LEDGER = Path(__file__).parent / "faults" / "oracle.json"
SEEDS = 5
# A fault that chance could explain once in a hundred is none. Five against five reach 1/252 when all of them are worse.
LEVEL = 0.01
MEASURED = ("_s", "_mb", "_ms")  # how metrics of time and memory end
LIMIT_S = 120  # a program of the bench takes a few seconds


def main(bench: Bench, root: Path, *, again: bool) -> None:
    """Judges each faulty program and each control once, and keeps the verdicts beside the faults.

    Faulty and fixed runs alternate, one at a time: times are compared too. Give it a quiet core.
    """
    known: dict[str, Any] = {} if again else (kept(LEDGER) or {})
    for entry in bench.entries:
        name = name_of(entry)
        if entry.role not in ("faulty", "control", "unknown") or known.get(name, {}).get("key") == entry.key:
            continue
        known[name] = {"key": entry.key, **judged(entry, bench.jobs[entry.key], root)}
        write(known)
        say(f"{name}: {json.dumps({key: value for key, value in known[name].items() if key != 'key'})}")


def write(known: Mapping[str, Any]) -> None:
    """One line for each program, so that a change is one line of a diff."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known))
    aside = LEDGER.with_suffix(".part")
    aside.write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    aside.replace(LEDGER)


def name_of(entry: Entry) -> str:
    """The name of a program in the ledger."""
    return " ".join(part for part in (entry.id, entry.host, entry.severity) if part)


def verdicts() -> dict[str, dict[str, Any]]:
    """What was found earlier, by program."""
    return kept(LEDGER) or {}


def judged(entry: Entry, job: Job, root: Path) -> dict[str, Any]:
    """Whether a faulty program is worse than its fixed one, or a control as good as it promises."""
    if entry.role != "faulty":
        program = next(each for each in (*controls.CONTROLS, *unknown.UNKNOWN) if each.id == entry.id)
        values = [metric(job, seed, program.metric, root) for seed in range(SEEDS)]
        return {"metric": program.metric, "values": _rounded(values), "healthy": all(map(program.reached, values))}
    fault = next(each for each in _base.all_faults() if each.id == entry.id)
    fixed = job_of(_base.fixed_source(entry.host), fault.environment)
    pairs = []
    for seed in range(SEEDS):
        order = (job, fixed) if seed % 2 else (fixed, job)  # whoever goes second meets a warmer machine
        found = {each.key: metric(each, seed, fault.metric, root) for each in order}
        pairs.append((found[job.key], found[fixed.key]))
    faulty, well = zip(*pairs, strict=True)
    p = worse_by_ranks(faulty, well, better=fault.better)
    return {
        "metric": fault.metric, "faulty": _rounded(faulty), "fixed": _rounded(well), "p": round(p, 4), "matters": p < LEVEL,
    }  # fmt: skip


def metric(job: Job, seed: int, name: str, root: Path) -> float:
    """The metric of one plain run; NaN when it broke down, took too long or printed no result.

    What a run learns is the same each time, so a host is run once for each seed and remembered; times and memory are
    measured anew, in turns.
    """
    path = root / "plain-runs" / f"{job.key}-{seed}.json"
    known = None if name.endswith(MEASURED) else kept(path)
    if known is None:
        environment = {**dict(job.environment), "SEED": str(seed)}
        with alone(job) as folder:
            ended = run([sys.executable, PROGRAM], folder=folder, environment=environment, limit_s=LIMIT_S)
        lines = [line for line in ended.out.splitlines() if line.startswith("result: ")]
        known = {"result": lines[-1] if lines and ended.status == 0 else ""}
        keep(path, known)
    return result_in(known["result"], name)


def result_in(text: str, name: str) -> float:
    """A number of the result line, the last one that was printed.

    >>> result_in('epoch 1\\nresult: {"val_loss": 0.5, "other": NaN}', "val_loss")
    0.5
    >>> result_in("nothing", "val_loss")
    nan
    """
    lines = re.findall(r"^result: (\{.*\})\s*$", text, re.MULTILINE)
    value = json.loads(lines[-1]).get(name) if lines else None
    return float(value) if isinstance(value, int | float) else math.nan


def _rounded(values) -> list[float | None]:
    return [float(f"{value:.5g}") if math.isfinite(value) else None for value in values]
