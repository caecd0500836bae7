"""Published default rules, and packages that install, on the programs of the fault bench.

The rule sets are re-implemented (rival_rules.py) over a record of each run (rival_recorder.py). Packages are run as shipped, by
the interpreter of `--rival-python`, on the log that a user would have kept; one that cannot be had is named and skipped.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import rival_rules
from benchmarks.fault_bench import HERE, Bench, Entry, Job, alone, over_all, run, say
from benchmarks.fault_score import PROGRAM, Share

LIMIT_S = 300  # of a recorded run, which looks often
LOG_LIMIT_S = 60  # of a tool that reads a log
QUIET = {"info", "ok", "none", "hint"}  # severities that are no alarm

# What asks a package: its command after the interpreter, and how its answer is read.
GRADSNITCH = """
import json, sys, gradsnitch
print(json.dumps([{"name": f.name, "severity": f.severity} for f in gradsnitch.lint_csv(sys.argv[1])]))
"""
TRAINSPOTTER = "import sys; from trainspotter.cli import main; sys.exit(main())"  # it has no __main__
PACKAGES: dict[str, tuple[list[str], Callable[[Any], list[dict]]]] = {
    "runmedic": (["-m", "runmedic", "diagnose", "metrics.csv", "--json"], lambda found: found[0]["findings"]),
    "trainspotter": (
        ["-c", TRAINSPOTTER, "analyze", "metrics.csv", "--output", "json"],
        lambda found: found["findings"],
    ),
    "gradsnitch": (["-c", GRADSNITCH, "metrics.csv"], lambda found: found),
}
# Those that ride with the script: the module beside this one that runs it, and the words before its answer.
RIDERS = {"torchmortem": ("rival_torchmortem.py", "torchmortem says: ")}
SKIPPED = {"traceml-ai": "it wants three lines in the script and its launcher"}

# Which faults the packages' alarms name, generously, by a word in them.
WORDS: dict[str, tuple[str, ...]] = {
    "nan": ("O01", "D01", "D02", "O50", "O48"), "non_finite": ("O01", "D01", "D02", "O50", "O48"),
    "non-finite": ("O01", "D01", "D02", "O50", "O48"), "diverg": ("O01", "O02", "O07"), "explo": ("O01", "O02", "O15", "O18"),
    "overfit": ("G01", "G04"), "plateau": ("O03", "G02"), "not learning": ("O03", "O06", "O08", "O09", "O14", "O19", "D06"),
    "spike": ("O41", "O18", "O06"), "warmup": ("O06",), "vanish": ("O16", "O17"), "lr too low": ("O03", "O04"),
    "lr too high": ("O01", "O02"), "noisy": ("O42",), "oscill": ("O35", "O02", "O42"), "clip": ("O36",),
    "dead": ("O19", "O14"), "saturat": ("O20", "O17"), "update ratio": ("O01", "O02", "O03"), "stagnat": ("O03", "O08", "O09"),
}  # fmt: skip


def main(bench: Bench, root: Path, *, python: str, jobs: int, again: bool) -> None:
    """Runs every program once under the recorder, and asks every rule set and package."""
    asked = available(python, root)
    for name in sorted({*PACKAGES, *RIDERS} - set(asked)):
        say(f"{name} is left out: {'no --rival-python was given' if not python else 'it does not import there'}")
    for name, reason in SKIPPED.items():
        say(f"{name} is left out: {reason}")

    def work(job: Job) -> dict[str, Any]:
        return judged(job, root, python, asked)

    over_all(bench, work, root / "rivals", jobs=jobs, again=again, words=_in_words)


def available(python: str, root: Path) -> list[str]:
    """The packages that import in that interpreter."""
    root.mkdir(parents=True, exist_ok=True)
    return [
        name
        for name in (*PACKAGES, *RIDERS)
        if python and run([python, "-c", f"import {name}"], folder=root, limit_s=120).status == 0
    ]


def judged(job: Job, root: Path, python: str, packages: Sequence[str]) -> dict[str, Any]:
    """The alarms that each raised, in their order; None for one that failed."""
    out = root / "rival-records" / job.key
    recorder = str(HERE / "rival_recorder.py")
    with alone(job) as folder:
        command = [sys.executable, recorder, str(out), PROGRAM]
        ended = run(command, folder=folder, environment=dict(job.environment), limit_s=LIMIT_S)
    record = out / "record.json"
    if not record.is_file():
        return {"alarms": dict.fromkeys((*rival_rules.RULES, *packages)), "says": ended.err[-300:]}
    found: dict[str, list[str] | None] = {**rival_rules.alarms(json.loads(record.read_text()))}
    for name in packages:
        found[name] = package_alarms(name, python, out) if name in PACKAGES else ridden_alarms(name, python, job)
    record.unlink()  # some megabytes each
    return {"alarms": found}


def package_alarms(name: str, python: str, folder: Path) -> list[str] | None:
    """What a package says of the log in a folder, remarks left out."""
    words, reader = PACKAGES[name]
    ended = run([python, *words], folder=folder, limit_s=LOG_LIMIT_S)
    try:
        findings = reader(json.loads(ended.out))
    except (ValueError, LookupError, TypeError):
        return None
    return list(dict.fromkeys(_name(each) for each in findings if str(each.get("severity")).lower() not in QUIET))


def ridden_alarms(name: str, python: str, job: Job) -> list[str] | None:
    """What a package says that rides with the script, remarks left out."""
    module, words = RIDERS[name]
    with alone(job) as folder:
        command = [python, str(HERE / module), PROGRAM]
        ended = run(command, folder=folder, environment=dict(job.environment), limit_s=LIMIT_S)
    lines = [line for line in ended.out.splitlines() if line.startswith(words)]
    if not lines:
        return None
    findings = json.loads(lines[-1].removeprefix(words))
    return list(dict.fromkeys(_name(each) for each in findings if each["severity"] not in QUIET))


def _name(finding: Mapping[str, Any]) -> str:
    return str(finding.get("check") or finding.get("title") or finding.get("name") or finding.get("detector"))


def names(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Whoever was asked, in the order in which they were."""
    return list(dict.fromkeys(who for found in results for who in found["alarms"]))


def row(who: str, faulty: Sequence[Entry], well: Sequence[Entry], said: Mapping[str, Mapping[str, Any]]) -> str:
    """One line of the table; programs on which it gave no answer are left out of its shares, and told."""
    sick = [(entry, said[entry.key]["alarms"].get(who)) for entry in faulty if entry.key in said]
    fine = [said[entry.key]["alarms"].get(who) for entry in well if entry.key in said]
    lost = sum(alarms is None for _, alarms in sick) + fine.count(None)
    sick = [(entry, alarms) for entry, alarms in sick if alarms is not None]
    fine = [alarms for alarms in fine if alarms is not None]
    detected = Share(sum(bool(alarms) for _, alarms in sick), len(sick))
    right = Share(sum(bool(alarms) and names_it(alarms[0], entry.id) for entry, alarms in sick), len(sick))
    quiet = Share(sum(map(bool, fine)), len(fine))
    words = f"{who} ({lost} without an answer)" if lost else who
    return f"| {words} | {len(sick)} | {detected} | {right} | {len(fine)} | {quiet} |"


def names_it(alarm: str, fault: str) -> bool:
    """Whether an alarm names the fault, read generously.

    >>> names_it("dead relu", "O19"), names_it("dead relu", "O01"), names_it("Loss became NaN/Inf", "O01")
    (True, False, True)
    """
    if alarm in rival_rules.NAMES:
        return fault in rival_rules.NAMES[alarm]
    return any(
        word in alarm.lower().replace("_", " ") or word in alarm.lower()
        for word, faults in WORDS.items()
        if fault in faults
    )


def _in_words(found: Mapping[str, Any]) -> str:
    counts = (
        (who.split()[0], "no answer" if alarms is None else len(alarms)) for who, alarms in found["alarms"].items()
    )
    return ", ".join(f"{who} {number}" for who, number in counts)
