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
from benchmarks.faults._base import Fault

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
        if entry.role not in ("faulty", "control", "unknown") or answers(known.get(name, {}), asked := question(entry)):
            continue
        known[name] = {**asked, **judged(entry, bench.jobs[entry.key], root)}
        write(known)
        say(f"{name}: {json.dumps({key: value for key, value in known[name].items() if key not in asked})}")


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
    """Whether a faulty program is worse than its mended one, or a control as good as it promises."""
    fault = next((each for each in _base.all_faults() if each.id == entry.id), None)
    if fault is None:
        program = next(each for each in (*controls.CONTROLS, *unknown.UNKNOWN) if each.id == entry.id)
        values = [metric(job, seed, program.metric, root) for seed in range(SEEDS)]
        return {"metric": program.metric, "values": _rounded(values), "healthy": all(map(program.reached, values))}
    faulty, well = compared(*sides(fault, entry.host, entry.severity), fault.metric, root)
    told = {"metric": fault.metric, "faulty": _rounded(faulty), "fixed": _rounded(well)}
    if fault.kind == "none":
        p = min(worse_by_ranks(*pair, better=fault.better) for pair in ((faulty, well), (well, faulty)))
        return {**told, "p": round(p, 4), "healthy": p >= LEVEL}
    p = worse_by_ranks(faulty, well, better=worst_way(fault))
    return {**told, "p": round(p, 4), "matters": p < LEVEL}


def answers(known: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
    """Whether what is known was found by this question.

    >>> answers({"key": "a", "metric": "val_loss", "p": 0.2}, {"key": "a", "metric": "val_loss", "asked": "lower b c"})
    False
    """
    return asked.items() <= known.items() and ("asked" in asked) == ("asked" in known)


def sides(fault: Fault, host: str, severity: str) -> tuple[Job, Job]:
    """The faulty program and the mended one, both so that they print the fault's metric."""
    texts = _base.source(fault, host, severity), _base.mended_source(fault, host, severity)
    faulty, mended = (job_of(_base.measured_source(fault, host, text), fault.environment) for text in texts)
    return faulty, mended


def worst_way(fault: Fault) -> str:
    """Which way the metric would have to go to do no harm: a flattering number must not be the better one."""
    other = {"lower": "higher", "higher": "lower"}
    return other[fault.better] if fault.flatters else fault.better


def question(entry: Entry) -> dict[str, str]:
    """What was asked of a program: an answer to another question is none. The host's own numbers need no more than a name."""
    fault = next((each for each in _base.all_faults() if each.id == entry.id), None)
    if fault is None:
        return {"key": entry.key}
    known = {"key": entry.key, "metric": fault.metric}
    if not (fault.flatters or fault.mended or fault.measured):
        return known
    both = [job.key for job in sides(fault, entry.host, entry.severity)]
    return {**known, "asked": " ".join((worst_way(fault), *both))}


def compared(faulty: Job, mended: Job, name: str, root: Path) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The metric of both programs, seed by seed."""
    pairs = []
    for seed in range(SEEDS):
        order = (faulty, mended) if seed % 2 else (mended, faulty)  # whoever goes second meets a warmer machine
        found = {each.key: metric(each, seed, name, root) for each in order}
        pairs.append((found[faulty.key], found[mended.key]))
    left, right = zip(*pairs, strict=True)
    return left, right


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
