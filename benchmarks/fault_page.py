"""The fault bench's answers as a page: the score, what healthy programs were told, rivals, and what falls short."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.fault_bench import HERE, SECTIONS, Answer, Bench, Entry, kept
from benchmarks.fault_oracle import name_of, verdicts
from benchmarks.fault_score import (
    COVERAGES,
    SLOW_STAGES,
    Mark,
    Told,
    Totals,
    alarms,
    confusion,
    mark,
    selective,
    told,
    totals,
)  # fmt: skip
from benchmarks.faults import compound, controls, unknown

# Thresholds are tuned on the first hosts and held on the others, and the reverse: the two halves of the fault list.
FIRST_HALF = ("digits_", "chars_", "sequences_", "tabular_")

HEAD = """# Known faults, and healthy programs that look faulty

    {command}

`netdyno doctor train.py --json` on programs whose fault is known, on their benign twins (code that looks like the fault and is
right), on the healthy hosts, and on 36 healthy controls that tempt a false alarm. A finding counts when it is told as found, not
as suspected; remarks about the machine are left out. Strict: the first finding must name the cause. Intervals are Wilson's, 95 %.
Each section has its own commands: `--oracle` (does the fault matter? plain runs with five seeds, exact rank test at p < 0.01),
`--rivals`, `--plain`, `--overhead`; `--tenth` takes every tenth of each section; `--rejudge` takes today's rules over stored evidence.
"""

# The same rule for all faults, worked out from the source: see benchmarks/faults/_uses.py.
PLACE_NOTE = """A place is right within a line of what the edit changed, or on a line one step from it along names and calls: one that
uses what a changed line gave a value, until that name has another value; the call of a changed function; for a constructor or a
data set's methods the line that makes the object, for `forward` the one that calls it; for a statement that was taken out, the
statements of its loop, or outside of loops those of its function that speak of the same names. Faults whose cause has no line are
left out, and so are programs in which nothing right was named."""

# Constants that were chosen with these hosts in sight, by the ones who chose them; what is not listed was reasoned.
TUNED_NOTE = """Leave-program-out: the score on hosts of the digits, characters, sequences and tables (B1–B5) beside the others (B6–B10).
The rules' thresholds have their reasons beside them; faults, hosts and rules were written by the same people at the same time,
so neither half is unseen. The controls and the unknown programs were written by somebody who wrote no rule."""


class Scored(NamedTuple):
    """A faulty program, the answer to it, and its mark."""

    entry: Entry
    answer: Answer
    mark: Mark


def scored(bench: Bench, answers: Mapping[str, Answer], *, harmless: bool = False) -> list[Scored]:
    """The faulty programs that have an answer. Those that the oracle found harmless are out, or are the only ones in."""
    judged = verdicts()
    found = []
    for entry in bench.entries:
        if entry.role == "faulty" and entry.key in answers and entry.truth is not None:
            answer = answers[entry.key]
            if is_harmless(entry, judged) is harmless:
                done = answer.status == "answered"
                found.append(Scored(entry, answer, mark(told(answer.outcomes), entry.truth, answered=done)))
    return found


def is_harmless(entry: Entry, judged: Mapping[str, Mapping]) -> bool:
    """True for a fault that was run with five seeds and made nothing worse."""
    verdict = judged.get(name_of(entry))
    return verdict is not None and verdict.get("key") == entry.key and verdict.get("matters") is False


def healthy(bench: Bench, answers: Mapping[str, Answer], role: str) -> list[tuple[Entry, Answer]]:
    """The healthy programs of a role that have an answer, equal texts once."""
    once = {entry.key: entry for entry in bench.entries if entry.role == role and entry.key in answers}
    return [(entry, answers[entry.key]) for entry in once.values()]


def short(bench: Bench, answers: Mapping[str, Answer]) -> str:
    """The tables that a reader of the terminal wants."""
    return "\n".join((*score_table(scored(bench, answers)), "", *healthy_table(bench, answers)))


def page(bench: Bench, answers: Mapping[str, Answer], root: Path, *, command: str) -> str:
    """The whole page."""
    marks = scored(bench, answers)
    parts = [
        HEAD.format(command=command),
        "## The score", "", *score_table(marks), "", *score_notes(bench, answers, marks), "",
        "## Healthy programs", "", *healthy_table(bench, answers), "", *per_rule(bench, answers), "",
        "## Beside others", "", *rivals_table(bench, answers, marks, root), "",
        "## Where the first finding lay", "", *confusion_table(marks), "",
        "## Programs left out", "", TUNED_NOTE, "", *halves_table(bench, answers, marks), "",
        "## Time", "", *time_lines(answers, root), "",
        "## Fault by fault", "", *fault_rows(marks), "",
        "## Controls and unknown programs", "", *control_rows(bench, answers), "",
        "## What falls short", "", *shortcomings(bench, answers, marks), "",
    ]  # fmt: skip
    return "\n".join(parts)


def score_table(marks: Sequence[Scored]) -> Iterator[str]:
    """One row for each section and one for all."""
    yield (
        "| section | programs | detected | strict first | first three | any true | precision | recall | F1 | "
        "place right | seconds |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for letter, section in SECTIONS.items():
        inside = [each for each in marks if each.entry.id[0] == letter]
        if inside:
            yield _score_row(section, inside)
    # Compounds stand beside the single faults: their first finding has two chances.
    yield _score_row("**all single faults**", [each for each in marks if each.entry.id[0] != "X"])


def _score_row(name: str, inside: Sequence[Scored]) -> str:
    sums: Totals = totals([each.mark for each in inside])
    seconds = f"{median(each.answer.seconds for each in inside):.0f}" if inside else ""
    return (
        f"| {name} | {sums.programs} | {sums.detected} | {sums.top1} | {sums.top3} | {sums.lenient} | {sums.precision:.2f} | "
        f"{sums.recall:.2f} | {sums.f1:.2f} | {sums.placed} | {seconds} |"
    )


def score_notes(bench: Bench, answers: Mapping[str, Answer], marks: Sequence[Scored]) -> Iterator[str]:
    """What the table leaves out, in sentences."""
    sums = totals([each.mark for each in marks])
    harmless = scored(bench, answers, harmless=True)
    judged = verdicts()
    untried = sum(name_of(each.entry) not in judged for each in marks)
    yield (
        f"{len(harmless)} programs are not in the table because the oracle found their fault to make nothing worse; "
        f"{untried} of {len(marks)} were not put to the oracle yet. Findings that are told as symptoms under another one are no "
        f"guesses; counted as guesses too, precision is {sums.precision_all:.2f}. Offers of time or memory count as wrong guesses in a "
        f"program whose fault is another; without them precision is {sums.precision_faults:.2f}. {sums.programs - sums.answered} programs got no answer "
        "and count as missed."
    )
    yield ""
    placed = [each.mark for each in marks if each.mark.place is not None]
    yield f"{PLACE_NOTE} Of {len(placed)} places {sum(each.on_change for each in placed)} are within a line of the change itself."
    yield ""
    single = [each.mark for each in marks]
    told_so = {coverage: selective(single, coverage) for coverage in COVERAGES}
    yield "Right among the surest: " + ", ".join(
        f"at {coverage:.0%} of the programs {'not reached' if right is None else f'{right:.0%}'}"
        for coverage, right in told_so.items()
    ) + ". Detection delay is not scored: the doctor speaks when the script is over."  # fmt: skip
    proofs = Counter(verdict for each in marks for verdict in each.answer.proofs.values())
    if proofs:
        yield ""
        yield (
            "Fixes put to the proof: "
            + ", ".join(f"{verdict} {number}" for verdict, number in proofs.most_common())
            + "."
        )


def healthy_table(bench: Bench, answers: Mapping[str, Answer]) -> Iterator[str]:
    """What was said of healthy programs, by what they are."""
    yield "| healthy programs | number | any finding | says that something is wrong | says that time or memory could be saved | per 1000 updates |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    names = {"control": "controls", "fixed": "hosts", "twin": "benign twins"}
    groups = {words: healthy(bench, answers, role) for role, words in names.items()}
    groups["**all**"] = [each for group in groups.values() for each in group]
    for words, group in groups.items():
        got = alarms([(told(answer.outcomes), answer.updates) for _, answer in group])
        yield f"| {words} | {got.programs} | {got.any} | {got.wrong} | {got.slow} | {got.per_1000_updates:.2f} |"
    lost = [
        entry.name for role in names for entry, answer in healthy(bench, answers, role) if answer.status != "answered"
    ]
    if lost:
        yield ""
        yield f"No answer, and so no alarm either: {', '.join(lost)}."


def per_rule(bench: Bench, answers: Mapping[str, Answer]) -> Iterator[str]:
    """False alarms of each rule, with the programs."""
    where: dict[str, list[str]] = defaultdict(list)
    for role in ("control", "fixed", "twin"):
        for entry, answer in healthy(bench, answers, role):
            for one in told(answer.outcomes):
                where[f"{one.rule} ({one.stage})"].append(
                    entry.id if role == "control" else f"{entry.host} {role if role == 'fixed' else entry.id + ' twin'}"
                )
    if not where:
        yield "No rule raised an alarm on a healthy program."
        return
    yield "| rule (stage) | false alarms | on |"
    yield "| --- | ---: | --- |"
    for rule, programs in sorted(where.items(), key=lambda item: -len(item[1])):
        yield f"| {rule} | {len(programs)} | {', '.join(programs)} |"


def rivals_table(bench: Bench, answers: Mapping[str, Answer], marks: Sequence[Scored], root: Path) -> Iterator[str]:
    """Detection, strict first and false alarms of the doctor, of published rules, and of two who do not look."""
    well = [each for role in ("control", "fixed", "twin") for each in healthy(bench, answers, role)]
    said = {key: found for key in bench.jobs if (found := kept(root / "rivals" / f"{key}.json")) is not None}
    yield "| who | faulty programs | alarm | strict first | healthy programs | alarm |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    single = [each for each in marks if each.entry.id[0] != "X"]
    sums = totals([each.mark for each in single])
    got = alarms([(told(answer.outcomes), answer.updates) for _, answer in well])
    yield f"| netdyno | {sums.programs} | {sums.detected} | {sums.top1} | {got.programs} | {got.any} |"
    from benchmarks import fault_rivals

    for who in fault_rivals.names(said.values()):
        yield fault_rivals.row(who, [each.entry for each in single], [entry for entry, _ in well], said)
    yield from _dummies(single, len(well))
    if not said:
        yield ""
        yield "`--rivals` was not run on these programs yet."


def _dummies(single: Sequence[Scored], well: int) -> Iterator[str]:
    number = len(single)
    causes = Counter(rule for each in single for rule in frozenset().union(*each.entry.truth.causes))
    always = f"{number}/{number} = 100%"
    most, hits = causes.most_common(1)[0] if causes else ("", 0)
    yield f'| always "faulty" | {number} | {always} | 0/{number} = 0% | {well} | {well}/{well} = 100% |'
    share = f"{hits}/{number} = {hits / number:.1%}" if number else "none"
    yield f"| always the most frequent cause ({most}) | {number} | {always} | {share} | {well} | {well}/{well} = 100% |"


def confusion_table(marks: Sequence[Scored]) -> Iterator[str]:
    """Sections of the truth against layers of the first finding."""
    table = confusion((SECTIONS[each.entry.id[0]], each.mark.first_layer) for each in marks)
    layers = sorted({layer for row in table.values() for layer in row} - {"nothing"})
    yield f"| section | {' | '.join((*layers, 'nothing'))} |"
    yield f"| --- |{' ---: |' * (len(layers) + 1)}"
    for section, row in table.items():
        yield f"| {section} | {' | '.join(str(row[layer] or '') for layer in (*layers, 'nothing'))} |"


def halves_table(bench: Bench, answers: Mapping[str, Answer], marks: Sequence[Scored]) -> Iterator[str]:
    """The score on the first hosts and on the others."""
    yield "| hosts | faulty programs | detected | strict first | healthy hosts and twins | any finding |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    well = [each for role in ("fixed", "twin") for each in healthy(bench, answers, role)]
    for words, belongs in (("B1–B5", _first_half), ("B6–B10", lambda host: not _first_half(host))):
        yield _half(words, belongs, marks, well)


def _half(words: str, belongs: Callable[[str], bool], marks: Sequence[Scored], well) -> str:
    sums = totals([each.mark for each in marks if belongs(each.entry.host)])
    got = alarms([(told(answer.outcomes), answer.updates) for entry, answer in well if belongs(entry.host)])
    return f"| {words} | {sums.programs} | {sums.detected} | {sums.top1} | {got.programs} | {got.any} |"


def _first_half(host: str) -> bool:
    return host.startswith(FIRST_HALF)


def time_lines(answers: Mapping[str, Answer], root: Path) -> Iterator[str]:
    """Seconds to the verdict, what the watching took of the run, and the toggled test where it was made."""
    done = [answer for answer in answers.values() if answer.status == "answered"]
    if done:
        seconds = sorted(answer.seconds for answer in done)
        yield (
            f"Time to the verdict, script included: median {median(seconds):.1f} s, 95th percentile {_at(seconds, 0.95):.1f} s, "
            f"longest {seconds[-1]:.1f} s ({len(done)} programs)."
        )
    shares = sorted(answer.own_s / answer.span_s for answer in done if answer.span_s)
    if shares:
        yield (
            f"Of the watched time the watching took by its own account: median {median(shares):.2%}, "
            f"95th percentile {_at(shares, 0.95):.2%}, most {shares[-1]:.2%}."
        )
    overhead = kept(root / "overhead.json")
    yield ""
    if overhead is None:
        yield "`--overhead` was not run yet: the toggled test of the vitals on micro models."
        return
    yield from overhead["lines"]


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def fault_rows(marks: Sequence[Scored]) -> Iterator[str]:
    """Each faulty program: what was said first, whether that is right, and what the oracle found."""
    judged = verdicts()
    yield "| fault | host | severity | said first | right | place | its fix | matters |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for each in marks:
        entry, got = each.entry, each.mark
        right = "yes" if got.top1 else "among others" if got.lenient else "no"
        said = got.first or ("nothing" if got.answered else each.answer.status)
        verdict, proof = judged.get(name_of(entry), {}), each.answer.proofs.get(got.first, "")
        matters = f"p = {verdict['p']:.3f}" if "p" in verdict else "not asked"
        yield f"| {entry.id} | {entry.host} | {entry.severity} | {said} | {right} | {_yes(got.place)} | {proof} | {matters} |"


def _yes(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def tempts(program: object) -> str:
    """What a healthy program tempts; a fault without effect tempts a claim that its fix helps."""
    return str(getattr(program, "tempts", "a claim that a change without effect helps"))


def control_rows(bench: Bench, answers: Mapping[str, Answer]) -> Iterator[str]:
    """Each control and unknown program, what it tempts, and what was said."""
    programs = {each.id: each for each in (*controls.CONTROLS, *unknown.UNKNOWN)}
    judged = verdicts()
    yield "| program | script | tempts | said | as good as promised |"
    yield "| --- | --- | --- | --- | --- |"
    for entry in bench.entries:
        if entry.role in ("control", "unknown") and entry.key in answers:
            answer = answers[entry.key]
            said = ", ".join(one.rule for one in told(answer.outcomes)) or (
                "nothing" if answer.status == "answered" else answer.status
            )
            healthy_so = _yes(judged.get(name_of(entry), {}).get("healthy")) or "not asked"
            yield f"| {entry.id} | {entry.host} | {tempts(programs.get(entry.id))} | {said} | {healthy_so} |"


def shortcomings(bench: Bench, answers: Mapping[str, Answer], marks: Sequence[Scored]) -> Iterator[str]:
    """What is missing and what went wrong, by name."""
    there = {entry.id for entry in bench.entries}
    missed = sorted({each.entry.id for each in marks if not each.mark.detected})
    wrong = sorted({each.entry.id for each in marks if each.mark.detected and not each.mark.top1})
    harmless = sorted({each.entry.id for each in scored(bench, answers, harmless=True)})
    abstained = [
        told(answers[entry.key].outcomes) for entry in bench.entries if entry.role == "unknown" and entry.key in answers
    ]
    unasked = [entry.name for entry in bench.entries if entry.key not in answers]
    lines = {
        "Nothing is said of": missed,
        "Something else is said first of": wrong,
        "Made nothing worse in five seeds, so not scored": harmless,
        "Not examined in this run": sorted(set(every_listed()) - there),
        "Compounds whose parts go into no common host": list(compound.MISSING),
        "Not asked yet": unasked,
        "No answer": _unanswered(bench, answers),
        "Accepted names that no rule and no lint has": nameless(bench),
        "Controls that are not as good as they promise": _unhealthy(bench),
    }
    for words, names in lines.items():
        if names:
            yield f"- {words} ({len(names)}): {', '.join(names)}."
    spoke = sum(_names_a_fault(findings) for findings in abstained)
    yield f"- Of {len(abstained)} programs with nothing to put right, {spoke} were given a cause."
    made = sorted({answer.made_with for answer in answers.values() if answer.made_with})
    yield f"- The answers are those of {len(made)} state(s) of the code: {', '.join(made) or 'not recorded'}."
    yield (
        "- Strict causes are rules' ids which the writers of the faults listed; that a fix recovers 80 % of what was lost is shown "
        "only where a proof was made. One machine, no GPU, short programs."
    )


def _names_a_fault(findings: Sequence[Told]) -> bool:
    return any(one.stage not in SLOW_STAGES for one in findings)


def nameless(bench: Bench) -> list[str]:
    """Names in the truths that nothing can say: a spelling mistake would count as a miss for ever."""
    rooms = (HERE.parent / "src/netdyno" / room for room in ("rules", "lint"))
    known = {path.stem.replace("_", "-") for room in rooms for path in room.glob("*.py")}
    truths = {
        (entry.id, rule) for entry in bench.entries if entry.truth for cause in entry.truth.causes for rule in cause
    }
    return sorted(f"{fault} {rule}" for fault, rule in truths if rule not in known)


def _unanswered(bench: Bench, answers: Mapping[str, Answer]) -> list[str]:
    """Programs on which the doctor failed, with its first words."""
    found = []
    for entry in bench.entries:
        answer = answers.get(entry.key)
        if answer is not None and answer.status != "answered":
            words = (answer.says.splitlines() or [""])[0][:80]
            found.append(f"{entry.name} ({answer.status}{': ' + words if words else ''})")
    return found


def _unhealthy(bench: Bench) -> list[str]:
    judged = verdicts()
    return [entry.name for entry in bench.entries if judged.get(name_of(entry), {}).get("healthy") is False]


def every_listed() -> Iterator[str]:
    """The ids of the fault list."""
    sizes = {"D": 30, "C": 24, "M": 11, "O": 55, "G": 16, "T": 14, "P": 10, "X": 10, "U": 5, "H": 36}
    for letter, size in sizes.items():
        yield from (f"{letter}{number:02}" for number in range(1, size + 1))
