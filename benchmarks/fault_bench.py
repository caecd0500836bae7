"""The doctor on programs whose fault is known, on their twins, and on healthy programs that tempt a false alarm.

    taskset -c 1 env OMP_NUM_THREADS=1 python benchmarks/fault_bench.py            # first hosts, clear severity
    python benchmarks/fault_bench.py --tenth                                       # every tenth of each section
    python benchmarks/fault_bench.py --oracle                                      # do the faults matter? 5 seeds each
    python benchmarks/fault_bench.py --rivals                                      # published rules on the same programs
    python benchmarks/fault_bench.py --rejudge                                     # today's rules over the stored evidence

A run that is cut short goes on where it was: one JSON per program lies in the root folder. Programs of equal text run once.
Every program is called train.py and lies in a folder that tells nothing; the truth is only known to the scorer.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))  # so that it also starts as a script

from benchmarks.fault_score import PROGRAM, Truth, tenth  # noqa: E402
from benchmarks.faults import _base, compound, controls, unknown  # noqa: E402
from benchmarks.faults._base import Fault  # noqa: E402

RUNNING: set[subprocess.Popen[str]] = set()  # ended with the bench, also when it is cut short
NOTHING: Mapping[str, str] = {}
LIMIT_S = 300  # of one program on a busy machine; the quiet ones take ten: past it the doctor has failed
SECTIONS = {
    "D": "data", "C": "compute", "M": "memory", "O": "optimisation", "G": "generalisation", "T": "train/inference",
    "P": "deployment", "E": "endings", "X": "compound", "U": "unknown", "H": "healthy",
}  # fmt: skip


class Job(NamedTuple):
    """A program to examine: its key is a hash of its text and environment."""

    key: str
    text: str
    environment: tuple[tuple[str, str], ...] = ()


class Entry(NamedTuple):
    """What a program is in the bench. `role`: faulty, fixed, twin, control, unknown."""

    role: str
    id: str
    host: str
    severity: str = ""
    key: str = ""
    truth: Truth | None = None

    @property
    def name(self) -> str:
        """Words for the progress line."""
        return " ".join(part for part in (self.id, self.host, self.severity, self.role) if part)


class Bench(NamedTuple):
    """Everything that is to be examined: what each program is, and the programs, each once."""

    entries: tuple[Entry, ...]
    jobs: Mapping[str, Job]


class Answer(NamedTuple):
    """What came of one program. `status`: answered, failed, time-out. `made_with` is the commit of the doctor."""

    key: str
    status: str
    seconds: float
    outcomes: list[dict[str, Any]]
    says: str = ""
    record: str = ""
    updates: int = 0
    own_s: float = 0.0
    span_s: float = 0.0
    proofs: dict[str, str] = {}  # rule -> what an experiment said of its fix  # noqa: RUF012
    made_with: str = ""


def job_of(text: str, environment: Mapping[str, str] = {}) -> Job:
    """The job of a text; equal texts are one job.

    >>> job_of("a").key == job_of("a").key != job_of("b").key
    True
    """
    pairs = tuple(sorted(environment.items()))
    return Job(hashlib.sha256(json.dumps([text, pairs]).encode()).hexdigest()[:16], text, pairs)


def causes_of(fault: Fault) -> tuple[frozenset[str], ...]:
    """The accepted rules of each cause in a program: compounds have two."""
    parts = compound.PARTS.get(fault.id)
    if parts is None:
        return (frozenset(fault.accept),)
    by_id = {each.id: each for each in _base.all_faults()}
    return tuple(frozenset(by_id[part].accept) for part in parts)


def truth_of(fault: Fault, host: str, severity: str) -> Truth:
    """The truth as the scorer wants it."""
    lines = _base.changed_lines(fault, host, severity) if fault.located else ()
    near = _base.near_lines(fault, host, severity) if fault.located else ()
    return Truth(causes=causes_of(fault), lines=lines, near=near, located=fault.located, layer=fault.layer)


def assembled(ids: Iterable[str] | None, *, hosts: str = "first", severity: str = "clear") -> Bench:
    """The bench of these ids, or of all."""
    wanted = None if ids is None else set(ids)
    entries: list[Entry] = []
    jobs: dict[str, Job] = {}

    def add(entry, text, environment=NOTHING):
        job = job_of(text, environment)
        jobs[job.key] = job
        entries.append(entry._replace(key=job.key))

    faults = [fault for fault in _base.all_faults() if wanted is None or fault.id in wanted]
    for fault in faults:
        for host in fault.hosts[: 1 if hosts == "first" else None]:
            for grade in _grades(fault, severity):
                entry = Entry("faulty", fault.id, host, grade, truth=truth_of(fault, host, grade))
                if fault.kind == "none":  # a change that does nothing: silence is right
                    entry = Entry("control", fault.id, host, grade)
                add(entry, _base.source(fault, host, grade), fault.environment)
            twin = _base.twin_source(fault, host)
            if twin != _base.fixed_source(host):
                add(Entry("twin", fault.id, host), twin, fault.environment)
    used = {entry.host for entry in entries} if wanted is not None else set(_base.hosts())
    for host in sorted(used):
        add(Entry("fixed", "host", host), _base.fixed_source(host))
    for role, programs in (("control", controls.CONTROLS), ("unknown", unknown.UNKNOWN)):
        for program in programs:
            if wanted is None or program.id in wanted:
                add(Entry(role, program.id, program.script), program.text)
    return Bench(tuple(entries), jobs)


def _grades(fault: Fault, severity: str) -> tuple[str, ...]:
    if severity == "all":
        return tuple(fault.severities)
    return (severity if severity in fault.severities else next(iter(fault.severities)),)


def every_id() -> tuple[str, ...]:
    """The ids of all faults, controls and unknown programs."""
    return (
        *(fault.id for fault in _base.all_faults()),
        *(program.id for program in (*controls.CONTROLS, *unknown.UNKNOWN)),
    )


def kept(path: Path) -> dict[str, Any] | None:
    """What lies in a file that was written whole; None when there is none, or half of one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def keep(path: Path, what: Any, *, indent: int | None = 1) -> None:
    """Written whole or not at all: a run that is cut short leaves no half files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".part")
    aside.write_text(json.dumps(what, indent=indent), encoding="utf-8")
    aside.replace(path)


def placed(job: Job, root: Path) -> Path:
    """The folder of a program, with the program in it and nothing else."""
    folder = root / "programs" / job.key
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PROGRAM).write_text(job.text, encoding="utf-8")
    return folder


@contextlib.contextmanager
def alone(job: Job) -> Iterator[Path]:
    """A folder with the program and nothing else, which goes away: no run finds what another one left."""
    with tempfile.TemporaryDirectory(prefix="fault-bench-") as name:
        (Path(name) / PROGRAM).write_text(job.text, encoding="utf-8")
        yield Path(name)


class Ended(NamedTuple):
    """How a process ended; status None is one that took too long and was ended with all its children."""

    status: int | None
    out: str
    err: str
    seconds: float


def run(command: list[str], *, folder: Path, environment: Mapping[str, str] = {}, limit_s: float = LIMIT_S) -> Ended:
    """Runs a command in a session of its own, so that no child of a program outlives its time."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        errors="replace", env={**os.environ, **environment}, start_new_session=True,
    )  # fmt: skip
    RUNNING.add(process)
    try:
        out, err = process.communicate(timeout=limit_s)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        out, err, status = "", f"no end within {limit_s:.0f} s", None
    finally:
        _end(process)
    return Ended(status, out, err, time.monotonic() - began)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    RUNNING.discard(process)


def examined(job: Job, root: Path, *, extra: tuple[str, ...] = (), made_with: str = "") -> Answer:
    """What the doctor says of a program."""
    folder = placed(job, root)
    command = [sys.executable, "-m", "netdyno", "doctor", PROGRAM, "--json", "--progress", "none", *extra]
    ended = run(
        [*command, "--store", str((root / "store").resolve())], folder=folder, environment=dict(job.environment)
    )
    outcomes = outcomes_in(ended.out)
    status = "time-out" if ended.status is None else "answered" if outcomes is not None else "failed"
    record = re.search(r"^record:\s+(.+)$", ended.err, re.MULTILINE)
    path = record.group(1).strip() if record else ""
    return Answer(
        key=job.key, proofs=proofs_in(outcomes or []), status=status, seconds=ended.seconds, outcomes=trimmed(outcomes or []),
        says=ended.err.strip()[-400:] if status != "answered" else "", record=path, made_with=made_with,
        **figures(kept(Path(path)) if path else None),
    )  # fmt: skip


def outcomes_in(text: str) -> list[dict[str, Any]] | None:
    """The outcomes in what the doctor printed, findings in the order in which they are told and then the silent rules.

    >>> text = '{"findings": [{"id": "b", "state": "found"}], "outcomes": [{"rule": "a", "state": "clear"}]}'
    >>> [(one["rule"], one["state"]) for one in outcomes_in(text)]
    [('b', 'found'), ('a', 'clear')]
    >>> outcomes_in("") is None
    True
    """
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("findings"), list):
        return None
    told = [{"rule": each["id"], "state": each["state"], "finding": each} for each in found["findings"]]
    names = {each["rule"] for each in told}
    return [*told, *(each for each in found.get("outcomes", ()) if each["rule"] not in names)]


def proofs_in(outcomes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """What experiments said of the fixes, by rule."""
    told = ((one["rule"], (one.get("finding") or {}).get("proof")) for one in outcomes)
    return {rule: proof for rule, proof in told if proof}


def trimmed(outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings, suspicions and failed rules: what is clear or skipped is most of it, and scores nothing."""
    return [one for one in outcomes if one.get("finding") or one.get("state") == "failed"]


def figures(record: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the record tells of the ride: updates, the seconds that were watched and the watch's own."""
    for item in (record or {}).get("evidence") or ():
        if item.get("kind") == "ScriptTrace":
            return {name: item.get(name) or 0 for name in ("updates", "own_s", "span_s")}
    return {}


def rejudged(answer: Answer) -> Answer:
    """The same evidence under today's rules; an answer without a stored record stays as it is."""
    from netdyno.cli.doctor import again
    from netdyno.reports import json as as_data
    from netdyno.store import Store

    path = Path(answer.record)
    if not answer.record or not path.is_file():
        return answer
    outcomes = outcomes_in(as_data.diagnosis(again(Store(path.parent.parent).load(str(path)))))
    return answer._replace(outcomes=trimmed(outcomes or []), made_with=f"{answer.made_with}+{commit()}")


def commit() -> str:
    """The commit of this tree, marked when files differ from it."""
    asked = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--abbrev=8"]
    try:
        return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def over_all(
    bench: Bench,
    work: Callable[[Job], dict[str, Any]],
    folder: Path,
    *,
    jobs: int,
    again: bool,
    words: Callable[[dict], str],
) -> dict[str, dict[str, Any]]:
    """Does the work for each program that has no result in the folder yet, and hands back all results by key."""
    names = names_of(bench)
    results = {} if again else {key: found for key in bench.jobs if (found := kept(folder / f"{key}.json")) is not None}
    todo = [job for key, job in bench.jobs.items() if key not in results]
    say(f"{len(bench.jobs)} programs, {len(results)} of them examined before")
    with ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(work, job): job for job in todo}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                job = waiting[future]
                results[job.key] = future.result()
                keep(folder / f"{job.key}.json", results[job.key])
                say(f"[{done}/{len(todo)}] {names[job.key]}: {words(results[job.key])}")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in tuple(RUNNING):
                _end(process)
            raise
    return results


def names_of(bench: Bench) -> dict[str, str]:
    """What each program is called in the progress lines."""
    names: dict[str, str] = {}
    for entry in bench.entries:
        names.setdefault(entry.key, entry.name)
    return names


def say(text: str) -> None:
    """One line on what goes on."""
    print(text, file=sys.stderr, flush=True)


def in_words(found: Mapping[str, Any]) -> str:
    """What the doctor said of a program, on the progress line."""
    rules = [one["rule"] for one in found["outcomes"] if one.get("state") == "found"]
    return f"{', '.join(rules) or 'nothing'} ({found['status']}, {found['seconds']:.0f} s)"


def chosen(options: argparse.Namespace) -> tuple[str, ...] | None:
    """The ids that are asked for; None for all."""
    if options.only:
        unknown_ids = sorted(set(options.only) - set(every_id()))
        if unknown_ids:
            raise SystemExit(f"nothing in the bench is called {', '.join(unknown_ids)}")
        return tuple(options.only)
    return tenth(every_id()) if options.tenth else None


def arguments() -> argparse.Namespace:
    """What is asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenth", action="store_true", help="every tenth of each section")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these faults, controls and unknown programs")
    parser.add_argument("--hosts", choices=("first", "all"), default="first")
    parser.add_argument("--severity", choices=("clear", "all"), default="clear")
    parser.add_argument("--jobs", type=int, default=1, help="programs at once; times are only worth something with one")
    parser.add_argument("--again", action="store_true", help="examine again what was examined before")
    parser.add_argument("--rejudge", action="store_true", help="today's rules over the stored evidence, without a run")
    parser.add_argument("--prove", action="store_true", help="let the doctor prove its fixes")
    parser.add_argument("--oracle", action="store_true", help="do the faults matter, and are the controls healthy?")
    parser.add_argument("--rivals", action="store_true", help="published rules and packages on the same programs")
    parser.add_argument("--rival-python", default="", help="an interpreter that has torch and the rivals' packages")
    parser.add_argument("--overhead", action="store_true", help="what a look at the numbers costs an update, toggled")
    parser.add_argument("--plain", action="store_true", help="the six plain scripts")
    parser.add_argument("--root", type=Path, default=Path(".netdyno/fault-bench"), help="where results lie")
    parser.add_argument("--write", type=Path, help="the page; docs/results/faults.md when the whole bench runs")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended too
    root = options.root.resolve()
    if options.plain or options.overhead:
        aside(options, root)
        return
    bench = assembled(chosen(options), hosts=options.hosts, severity=options.severity)
    if options.oracle:
        from benchmarks import fault_oracle

        fault_oracle.main(bench, root, again=options.again)
    if options.rivals:
        from benchmarks import fault_rivals

        fault_rivals.main(bench, root, python=options.rival_python, jobs=options.jobs, again=options.again)
    if options.oracle or options.rivals or options.rejudge:
        answers = asked_before(bench, root)
    else:
        answers = asked(bench, root, jobs=options.jobs, again=options.again, prove=options.prove)
    if options.rejudge:
        answers = {key: rejudged(answer) for key, answer in answers.items()}
    told_of(bench, answers, root, options)


def aside(options: argparse.Namespace, root: Path) -> None:
    """What runs beside the bench: the six plain scripts, and the price of a look at the numbers."""
    if options.plain:
        from benchmarks import plain_scripts

        plain_scripts.main(root, python=options.rival_python, again=options.again)
    if options.overhead:
        from benchmarks import vitals_overhead

        vitals_overhead.main(root)


def asked(bench: Bench, root: Path, *, jobs: int, again: bool, prove: bool) -> dict[str, Answer]:
    """The doctor's answers to all programs, asked where they are not known yet."""
    extra, made_with = ("--prove",) if prove else (), commit()

    def work(job: Job) -> dict[str, Any]:
        return examined(job, root, extra=extra, made_with=made_with)._asdict()

    found = over_all(bench, work, root / "answers", jobs=jobs, again=again, words=in_words)
    return {key: Answer(**answer) for key, answer in found.items()}


def told_of(bench: Bench, answers: Mapping[str, Answer], root: Path, options: argparse.Namespace) -> None:
    """Writes the page, and prints its first tables."""
    from benchmarks import fault_page

    whole = not (options.only or options.tenth)
    target = options.write or (HERE.parent / "docs/results/faults.md" if whole else root / "faults.md")
    command = " ".join(("python benchmarks/fault_bench.py", *_shown(sys.argv[1:])))
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(fault_page.page(bench, answers, root, command=command), encoding="utf-8")
    print(fault_page.short(bench, answers))
    say(f"page: {target}")


def _shown(words: list[str]) -> Iterator[str]:
    """The words of the command without folders of this machine."""
    for before, word in zip(["", *words], words, strict=False):
        hidden = before in ("--root", "--write", "--rival-python")
        yield "…" if hidden else word


def asked_before(bench: Bench, root: Path) -> dict[str, Answer]:
    """The doctor's answers that lie in the root folder."""
    return dict(_answers(bench, root))


def _answers(bench: Bench, root: Path) -> Iterator[tuple[str, Answer]]:
    for key in bench.jobs:
        found = kept(root / "answers" / f"{key}.json")
        if found is not None:
            yield key, Answer(**found)


if __name__ == "__main__":
    main()
