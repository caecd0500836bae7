"""The doctor on small real-life faults, each a script with a truth file beside it: what it says first, and of the repaired one.

    python benchmarks/cases.py ../shared/cases [--only 016] [--jobs 2] [--out FOLDER]

A case is a folder with `train.py`, `fixed.py` and `truth.yaml` (kind, layer). Resumable: one JSON per script in the out folder.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "cases.md"
HEAD = """# Small faults from real life

`python benchmarks/cases.py FOLDER`: each case is a script with a fault that people reported, the same script repaired, and a
truth file; and healthy scripts that tempt a false alarm (kind none). What `netdyno doctor train.py` says first of either,
suspicions left out. No constant was tuned to one of them, but whoever wrote the rules had read the cases, and some rules were
written after a case was seen to be missed: this shows what the doctor can see, not how it does on cases that nobody here knows.
"""
LIMIT_S = 600  # of one script on a busy machine: past it the doctor has failed


class Answer(NamedTuple):
    """What the doctor said of one script."""

    case: str
    script: str
    seconds: float
    status: int
    found: list[dict]
    says: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(".netdyno/cases"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    scripts = [
        folder / name
        for folder in sorted(given.cases.iterdir())
        if (folder / "truth.yaml").is_file() and given.only in folder.name
        for name in ("train.py", "fixed.py")
        if (folder / name).is_file()
    ]
    with ThreadPoolExecutor(given.jobs) as pool:
        answers = list(pool.map(lambda script: answered(script, given.out), scripts))
    page = "\n".join((HEAD, summary(answers, given.cases), "", *table(answers, given.cases), ""))
    RESULTS.write_text(page)
    print(page)


def answered(script: Path, out: Path) -> Answer:
    """What the doctor says, from the out folder when it was asked before."""
    kept = out / f"{script.parent.name}-{script.stem}.json"
    if kept.is_file():
        return Answer(**json.loads(kept.read_text()))
    began = time.monotonic()
    command = [sys.executable, "-m", "netdyno", "doctor", script.name, "--json", "--progress", "none"]
    try:
        done = subprocess.run(
            [*command, "--store", str(out.resolve() / "store")], cwd=script.parent, capture_output=True, text=True,
            timeout=LIMIT_S, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False,
        )  # fmt: skip
        findings = json.loads(done.stdout)["findings"] if done.stdout.strip() else []
        status, says = done.returncode, done.stderr.strip()[-600:]
    except subprocess.TimeoutExpired:
        findings, status, says = [], -1, f"no answer within {LIMIT_S} s"
    found = [
        {"rule": one["id"], **{key: one.get(key) for key in ("state", "layer", "says", "where")}} for one in findings
    ]
    answer = Answer(script.parent.name, script.name, time.monotonic() - began, status, found, says)
    kept.write_text(json.dumps(answer._asdict(), indent=1))
    print(
        f"{answer.case} {answer.script}: {[one['rule'] for one in found]} ({answer.seconds:.0f} s)",
        file=sys.stderr,
        flush=True,
    )
    return answer


def summary(answers: list[Answer], cases: Path) -> str:
    """How often something was said, how often in the layer of the truth, and of which healthy scripts."""
    healthy = {answer.case for answer in answers if truth_of(cases / answer.case / "truth.yaml").get("kind") == "none"}
    sick = [answer for answer in answers if answer.script == "train.py" and answer.case not in healthy]
    well = [answer for answer in answers if answer.script == "fixed.py"]
    controls = [answer for answer in answers if answer.case in healthy]
    right = [answer for answer in sick if in_layer(answer, cases)]
    could = [answer for answer in sick if answer.status in (0, 1)]
    said_of_well = [f"{answer.case} {sure(answer)[0]['rule']}" for answer in well if sure(answer)]
    alarms = [f"{answer.case} {sure(answer)[0]['rule']}" for answer in controls if sure(answer)]
    return (
        f"{len(sick)} faults: {len(could)} were answered, something is said of {len([each for each in could if sure(each)])}, and the first "
        f"finding is in the fault's layer for {len(right)}. Of {len(controls)} healthy scripts {len(alarms)} get a finding: "
        f"{', '.join(alarms) or 'none'}. Of {len(well)} repaired scripts {len(said_of_well)} do: {', '.join(said_of_well) or 'none'}."
    )


def sure(answer: Answer) -> list[dict]:
    """What is told, suspicions left out."""
    return [one for one in answer.found if one["state"] == "found"]


def in_layer(answer: Answer, cases: Path) -> bool:
    """Whether the first finding lies in the layer of the truth."""
    told = sure(answer)
    return bool(told) and told[0]["layer"] == truth_of(cases / answer.case / "truth.yaml").get("layer")


def table(answers: list[Answer], cases: Path) -> Iterator[str]:
    """A row for each case: the truth, what was said of the sick script, and of the repaired one."""
    by_case: dict[str, dict[str, Answer]] = {}
    for answer in answers:
        by_case.setdefault(answer.case, {})[answer.script] = answer
    yield "| case | kind | layer | said first of the fault | said first of the repaired one | seconds |"
    yield "| --- | --- | --- | --- | --- | ---: |"
    for case, pair in by_case.items():
        truth = truth_of(cases / case / "truth.yaml")
        sick, well = pair.get("train.py"), pair.get("fixed.py")
        seconds = f"{sick.seconds:.0f}" if sick else ""
        yield f"| {case} | {truth.get('kind', '')} | {truth.get('layer', '')} | {first(sick)} | {first(well)} | {seconds} |"


def first(answer: Answer | None) -> str:
    if answer is None:
        return ""
    told = sure(answer)
    if not told:
        return (
            "nothing"
            if answer.status in (0, 1)
            else f"no answer: {answer.says.splitlines()[0] if answer.says else answer.status}"
        )
    where = told[0]["where"] or {}
    line = f" at line {where['line']}" if where.get("line") else ""
    return f"{told[0]['rule']} ({told[0]['layer']}){line}"


def truth_of(path: Path) -> dict[str, str]:
    """The one-line fields of a truth file."""
    return dict(re.findall(r"^(\w+):\s*(.*)$", path.read_text(), re.MULTILINE))


if __name__ == "__main__":
    main()
