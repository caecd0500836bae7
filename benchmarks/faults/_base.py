"""What a fault is, how it gets into a host, and the truth that is written beside the faulty script."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from benchmarks.faults._uses import lines_used

HERE = Path(__file__).parent
HOSTS = HERE / "hosts"
MODULES = (
    "data",
    "compute",
    "memory",
    "optimisation",
    "losses",
    "learning_curves",
    "generalisation",
    "inference",
    "deployment",
    "compound",
)


class FaultError(Exception):
    """A fault that cannot be put into its host as it is described."""


class Edit(NamedTuple):
    """One piece of a host's text, which occurs exactly once there, and what takes its place."""

    old: str
    new: str


Edits = Mapping[str, tuple[Edit, ...]]  # per host


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault, how it gets into its hosts, and what is true of it."""

    id: str  # of the fault list: "D09"; compounds "X01"…, unknown "U01"…, controls "H01"…
    kind: str  # a short noun, e.g. "loss-shape-broadcast"; "none" for healthy controls
    layer: str  # one of netdyno.records.diagnosis.LAYERS; "none" for controls
    edits: Edits  # its keys are the hosts
    twin: Edits = field(default_factory=dict)  # looks the same and is right; a host not named is its own twin
    # mild, clear, fatal -> values of the `<<NAME>>` placeholders in what the edits put in
    severities: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"clear": {}})
    accept: tuple[str, ...] = ()  # ids of the rules that name this cause
    metric: str = "val_loss"  # what of the result line the fault makes worse
    better: str = "lower"  # which way that metric is better
    # The program prints a better number than it would without the fault, which new rows will not keep: that is the harm.
    flatters: bool = False
    # The faulty program put right, where that is not the host: on the same data, with the same settings otherwise.
    mended: Edits = field(default_factory=dict)
    # Put into both programs by the oracle, and by nobody else, where the harm is in a number that the program does not print.
    measured: Edits = field(default_factory=dict)
    fix: str = ""  # one line
    located: bool = True  # whether the truth has a line: those that the edits changed
    environment: Mapping[str, str] = field(default_factory=dict)  # extra environment variables of the run
    note: str = ""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts that the fault gets into."""
        return tuple(self.edits)


def hosts() -> tuple[str, ...]:
    """The names of all host programs."""
    return tuple(sorted(path.stem for path in HOSTS.glob("*.py") if not path.stem.startswith("_")))


def fixed_source(host: str) -> str:
    """The healthy host as it stands."""
    path = HOSTS / f"{host}.py"
    if not path.is_file():
        raise FaultError(f"There is no host {host!r}; there are {', '.join(hosts())}.")
    return path.read_text(encoding="utf-8")


def source(fault: Fault, host: str, severity: str = "clear") -> str:
    """The host with the fault in it."""
    if host not in fault.edits:
        raise FaultError(f"{fault.id} has no edits for {host!r}; it has some for {', '.join(fault.hosts)}.")
    return _edited(fixed_source(host), fault.edits[host], _values(fault, severity), f"{fault.id} in {host}")


def twin_source(fault: Fault, host: str) -> str:
    """Code that looks like the fault and is right; the host itself where the fault names no twin."""
    return _edited(fixed_source(host), fault.twin.get(host, ()), {}, f"the twin of {fault.id} in {host}")


def mended_source(fault: Fault, host: str, severity: str = "clear") -> str:
    """The program without the fault; the host itself where the fault names no other."""
    edits = fault.mended.get(host, ())
    return _edited(fixed_source(host), edits, _values(fault, severity), f"{fault.id} mended in {host}")


def measured_source(fault: Fault, host: str, text: str) -> str:
    """The faulty or the mended text so that it prints the fault's metric."""
    return _edited(text, fault.measured.get(host, ()), {}, f"the measure of {fault.id} in {host}")


def changed_lines(fault: Fault, host: str, severity: str = "clear") -> tuple[int, ...]:
    """The numbers of the faulty source's lines that differ from the host; for lines only taken out, their neighbours."""
    return lines_changed(fixed_source(host), source(fault, host, severity))


def lines_changed(before: str, after: str) -> tuple[int, ...]:
    """The numbers of the lines of `after`, from 1, that are not in `before`; the two around each pure deletion."""
    old, new = before.splitlines(), after.splitlines()
    numbers: set[int] = set()
    for tag, _, _, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            numbers.update(range(start + 1, stop + 1))
        elif tag == "delete":
            numbers.update(n for n in (start, start + 1) if 1 <= n <= len(new))
    return tuple(sorted(numbers))


def near_lines(fault: Fault, host: str, severity: str = "clear") -> tuple[int, ...]:
    """Lines of the faulty source that are as right to point at: one step from the changed ones along names and calls."""
    faulty = source(fault, host, severity)
    return lines_used(fixed_source(host), faulty, changed_lines(fault, host, severity))


def all_faults() -> tuple[Fault, ...]:
    """The faults of all modules that exist, in their order; an id that stands twice is an error."""
    faults: list[Fault] = []
    for name in MODULES:
        if (HERE / f"{name}.py").is_file() or (HERE / name / "__init__.py").is_file():
            faults.extend(import_module(f"{__package__}.{name}").FAULTS)
    twice = sorted({fault.id for fault in faults if sum(other.id == fault.id for other in faults) > 1})
    if twice:
        raise FaultError(f"More than one fault has the id {', '.join(twice)}.")
    return tuple(faults)


def truth(fault: Fault, host: str, severity: str = "clear") -> dict[str, object]:
    """What is true of the fault in this host, for the scorer and for nobody else."""
    return {
        "id": fault.id,
        "kind": fault.kind,
        "layer": fault.layer,
        "host": host,
        "severity": severity,
        "lines": list(changed_lines(fault, host, severity)) if fault.located else [],
        "near": list(near_lines(fault, host, severity)) if fault.located else [],
        "located": fault.located,
        "accept": list(fault.accept),
        "metric": fault.metric,
        "better": fault.better,
        "flatters": fault.flatters,
        "fix": fault.fix,
        "environment": dict(fault.environment),
        "note": fault.note,
    }


def write(fault: Fault, host: str, severity: str, folder: Path) -> None:
    """Puts faulty.py, fixed.py, twin.py and truth.json into the folder, which is made where it is missing."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "faulty.py": source(fault, host, severity),
        "fixed.py": mended_source(fault, host, severity),
        "twin.py": twin_source(fault, host),
        "truth.json": json.dumps(truth(fault, host, severity), indent=2, ensure_ascii=False) + "\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _values(fault: Fault, severity: str) -> Mapping[str, str]:
    if severity not in fault.severities:
        raise FaultError(f"{fault.id} has no severity {severity!r}; it has {', '.join(fault.severities)}.")
    return fault.severities[severity]


def _edited(text: str, edits: tuple[Edit, ...], values: Mapping[str, str], whose: str) -> str:
    """The text after all edits; each `old` is looked for in the text as the edits before it left it, once."""
    for number, edit in enumerate(edits, 1):
        found = text.count(edit.old) if edit.old else 0
        if found != 1:
            raise FaultError(f"Edit {number} of {whose}: {edit.old!r} occurs {found} times instead of once.")
        new = edit.new
        for name, value in values.items():
            new = new.replace(f"<<{name}>>", value)
        if "<<" in new and ">>" in new.partition("<<")[2]:
            raise FaultError(f"Edit {number} of {whose}: no value for a placeholder in {new!r}.")
        text = text.replace(edit.old, new)
    return text
