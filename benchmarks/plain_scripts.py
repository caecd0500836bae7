"""Six plain scripts, five with one planted cause: what the doctor, published rules and packages say of each.

taskset -c 1 python benchmarks/fault_bench.py --plain [--rival-python INTERPRETER]
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.fault_bench import HERE, Answer, Bench, Entry, commit, examined, in_words, job_of, over_all
from benchmarks.fault_score import SLOW_STAGES, Truth, mark, told

RESULTS = HERE.parent / "docs/results/plain-scripts.md"
HEAD = """# Six plain scripts

`python benchmarks/fault_bench.py --plain`: plain loops of forty to sixty lines, five of them with one planted cause. Each is
run unmodified. `right`: the first finding names the planted cause; on the healthy one, silence, or no more than an offer of speed.
"""


class Plain(NamedTuple):
    """A script, what was planted in it, and the rules that name it."""

    name: str
    cause: str
    accept: tuple[str, ...]
    piece: str = ""  # a text on the planted line


SCRIPTS = (
    Plain("slow_loader", "samples transformed in plain Python, no workers", ("input-bound", "slow-samples", "costly-line"), "values = ["),
    Plain("gradients_kept", "`zero_grad` is missing", ("uncleared-gradients",), "loss.backward()"),
    Plain("rate_too_high", "learning rate × 100", ("exploding-learning-rate", "learning-rate-too-high"), "lr=1.0"),
    Plain("dead_units", "hidden biases at −8", ("dead-units", "dead-relu", "dead-initialisation"), "nn.init.constant_"),
    Plain("tiny_operations", "a Python loop over samples with `.item()`", ("python-bound", "hidden-syncs", "per-sample-loop", "costly-line"), ".item()\n"),
    Plain("healthy", "nothing", ()),
)  # fmt: skip


def main(root: Path, *, python: str, again: bool) -> None:
    """Asks everybody and writes the page."""
    texts = {plain: (HERE / "plain" / f"{plain.name}.py").read_text(encoding="utf-8") for plain in SCRIPTS}
    jobs = {plain: job_of(text) for plain, text in texts.items()}
    entries = tuple(Entry("plain", plain.name, "", key=jobs[plain].key) for plain in SCRIPTS)
    bench = Bench(entries, {job.key: job for job in jobs.values()})
    made_with = commit()
    answers = over_all(
        bench, lambda job: examined(job, root, made_with=made_with)._asdict(), root / "answers", jobs=1, again=again, words=in_words
    )  # fmt: skip
    from benchmarks import fault_rivals

    fault_rivals.main(bench, root, python=python, jobs=1, again=again)
    said = {key: _kept(root / "rivals" / f"{key}.json") for key in bench.jobs}
    rows = [
        row(plain, texts[plain], Answer(**answers[jobs[plain].key]), said[jobs[plain].key] or {"alarms": {}})
        for plain in SCRIPTS
    ]
    page = "\n".join((HEAD, *table(rows), "", *notes(rows), ""))
    RESULTS.write_text(page, encoding="utf-8")
    print(page)


def _kept(path: Path) -> Any:
    from benchmarks.fault_bench import kept

    return kept(path)


class Row(NamedTuple):
    """What was said of one script."""

    plain: Plain
    doctor: str
    right: bool
    place: bool | None
    seconds: float
    others: Mapping[str, list[str] | None]


def row(plain: Plain, text: str, answer: Answer, said: Mapping[str, Any]) -> Row:
    """Holds the answers to one script against what was planted."""
    lines = lines_with(text, plain.piece)
    got = mark(told(answer.outcomes), Truth((frozenset(plain.accept),), lines=lines, located=bool(lines)))
    findings = told(answer.outcomes)
    words = ", ".join(f"{one.rule}{f' (line {one.line})' if one.line else ''}" for one in findings) or "nothing"
    quiet = all(one.stage in SLOW_STAGES for one in findings) and answer.status == "answered"
    right = got.top1 if plain.accept else quiet
    return Row(
        plain, words if answer.status == "answered" else answer.status, right, got.place, answer.seconds, said["alarms"]
    )


def lines_with(text: str, piece: str) -> tuple[int, ...]:
    """The lines on which a piece of text stands; for a loop's body, where it is planted.

    >>> lines_with("a\\nb = 1\\nc", "b =")
    (2,)
    """
    ast.parse(text)
    return tuple(number for number, line in enumerate(text.splitlines(keepends=True), 1) if piece and piece in line)


def table(rows: list[Row]) -> Iterator[str]:
    """A row for each script."""
    others = list(dict.fromkeys(who for each in rows for who in each.others))
    yield f"| script | planted | netdyno | right | place right | seconds | {' | '.join(others)} |"
    yield f"| --- | --- | --- | --- | --- | ---: |{' --- |' * len(others)}"
    for each in rows:
        place = "" if each.place is None else "yes" if each.place else "no"
        said = (_short(each.others.get(who)) for who in others)
        yield (
            f"| {each.plain.name} | {each.plain.cause} | {each.doctor} | {'yes' if each.right else 'NO'} | {place} | "
            f"{each.seconds:.0f} | {' | '.join(said)} |"
        )


def _short(alarms: list[str] | None) -> str:
    return "no answer" if alarms is None else re.sub(r"\s+", " ", "; ".join(alarms[:4])) or "nothing"


def notes(rows: list[Row]) -> Iterator[str]:
    """What falls short."""
    from benchmarks.fault_rivals import SKIPPED

    wrong = [each.plain.name for each in rows if not each.right]
    yield f"What falls short: {'not right on ' + ', '.join(wrong) if wrong else 'nothing on these six'}. Six scripts are few."
    yield (
        "Of the others at most four alarms are shown. Left out: "
        + ", ".join(f"{name} ({why})" for name, why in SKIPPED.items())
        + "."
    )
