"""Is the watch silent on healthy training? The controls and the hosts of the fault bench, watched as they are.

    python benchmarks/watch_alarms.py [--only H06 digits_cnn] [--write docs/results/watch-alarms.md]

Each program runs under `netdyno watch train.py`, no edit, in a folder of its own. What is told is read from its journal: trips of wires
(each would leave a snapshot, and could stop the run) and findings of the doctor's rules. All of these programs learn what they are meant
to, so that each is a false alarm; offers of time are counted apart, as they may be right.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.faults import _base
from benchmarks.faults.controls import CONTROLS

from netdyno.stats.shares import counted_share
from netdyno.store.journal import runs

LIMIT_S = 240.0


class Told(NamedTuple):
    """What was said of one program: trips, findings that something is wrong, and notes (offers of time, remarks)."""

    name: str
    trips: tuple[str, ...]
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    ended: str


def programs() -> dict[str, str]:
    """The text of each program by its name."""
    controls = {program.id: program.text for program in CONTROLS}
    return controls | {host: _base.fixed_source(host) for host in _base.hosts()}


def watched(name: str, text: str) -> Told:
    """Run it to its end, and read its journal."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="netdyno-alarms-") as folder:
        (Path(folder) / "train.py").write_text(text, encoding="utf-8")
        store = Path(folder) / "store"
        command = [sys.executable, "-m", "netdyno", "watch", "train.py", "--store", str(store)]
        try:
            status = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
            ).returncode
            ended = "" if status == 0 else f"exit {status}"
        except subprocess.TimeoutExpired:
            ended = "cut off"
        alerts = [event["alert"] for run in runs(store) for event in run.events()[0] if event["kind"] == "alert"]
    kinds: dict[str, list[str]] = {"trip": [], "warning": [], "note": []}
    for alert in alerts:
        kinds[alert["severity"]].append(alert["cause"])
    seconds = time.monotonic() - began
    return Told(name, tuple(kinds["trip"]), tuple(kinds["warning"]), tuple(kinds["note"]), seconds, ended)


def page(found: list[Told]) -> str:
    """The shares, and a line for each program that was spoken of."""
    over = [one for one in found if not one.ended]
    shares = {
        "a wire broke": [one for one in over if one.trips],
        "told that something is wrong": [one for one in over if one.wrong],
        "an offer of time, or a remark": [one for one in over if one.notes],
    }
    lines = [
        "# Is the watch silent on healthy training?", "",
        f"`python benchmarks/watch_alarms.py`: {len(over)} programs that learn what they are meant to (controls and hosts of the fault bench), each",
        "run to its end under `netdyno watch train.py`, no edit. All trips and warnings are false alarms.", "",
        "| | programs | share (95 %) |", "|---|---|---|",
    ]  # fmt: skip
    for name, those in shares.items():
        share = counted_share(len(those), len(over))
        lines.append(
            f"| {name} | {len(those)} of {len(over)} | {share.middle:.1%} ({share.low:.1%} to {share.high:.1%}) |"
        )
    spoken = [one for one in found if one.trips or one.wrong or one.notes or one.ended]
    lines += ["", "| program | trips | warnings | notes | ended |", "|---|---|---|---|---|"]
    lines += [
        f"| {one.name} | {', '.join(one.trips)} | {', '.join(one.wrong)} | {', '.join(one.notes)} | {one.ended} |"
        for one in spoken
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print a line for each program that was spoken of, and the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    wanted = {name: text for name, text in programs().items() if not options.only or name in options.only}
    found: list[Told] = []
    for name, text in wanted.items():
        found.append(watched(name, text))
        print(f"[{len(found)}/{len(wanted)}] {found[-1]}", file=sys.stderr, flush=True)
    told = page(found)
    print(told)
    if options.write is not None:
        options.write.write_text(told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
