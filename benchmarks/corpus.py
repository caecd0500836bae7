"""Public training scripts on the dyno: attached to, split, stopped, diagnosed, and tuned with proof.

    python benchmarks/corpus.py --root FOLDER --python INTERPRETER [--only NAME …] [--bare] [--doctor] [--tune SECONDS]

FOLDER holds one checkout per repository, named as in `corpus_list.py`, with the stand-ins that `corpus_data.py` lays.
INTERPRETER has what the scripts import; netdyno need not be there. What was seen of a script is kept in FOLDER/results, one
file each, and not done again unless `--again` asks for it: a battery that was cut short goes on. A script that fails is
a line of the table, with its last words. Writes docs/results/corpus.md.
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from corpus_list import PROGRAMS, PUBLIC, QUIET, Public
from netdyno.errors import NetdynoError
from netdyno.records.evidence import ScriptTrace, StepTimeline
from netdyno.records.record import Record
from netdyno.scripts.evidence import evidence
from netdyno.scripts.launch import Ride, ride
from netdyno.scripts.stream import Tick
from netdyno.store import Store
from netdyno.targets.script import Script, parse

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "corpus.md"
# A script that cleans up after its last update is given so long before it is ended.
GRACE_S = 30.0
# After so many bytes of output the beginning of an error is of no use any more.
LAST_WORDS = 400
GAP = "after "
Seen = dict[str, Any]


def command(public: Public, root: Path, python: Path, *, whole: bool = False) -> tuple[str, ...]:
    """The words that start the script, the interpreter or program first; `whole` for a run of its author's length."""
    told = public.whole if whole and public.whole else public.command
    words = shlex.split(told.replace("{root}", str(root)))
    return (str(python.parent / words[0]), *words[1:]) if words[0] in PROGRAMS else (str(python), *words)


def environment(public: Public, root: Path) -> dict[str, str]:
    """What the script's environment needs besides what is there."""
    own = {name: value.replace("{root}", str(root)) for name, value in public.environment.items()}
    return {**QUIET, **own}


def bare(public: Public, root: Path, python: Path, *, limit_s: float) -> Seen:
    """The script without netdyno: whether it runs at all, to its end or until the limit."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command(public, root, python),
            cwd=root / public.folder,
            env={**os.environ, **environment(public, root)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        words = output.read().decode(errors="replace").strip()[-LAST_WORDS:]
    state = "still running" if status is None else "ended" if status == 0 else "failed"
    return {"state": state, "status": status, "seconds": time.monotonic() - began, "words": words}


def attached(public: Public, script: Script, *, limit_s: float) -> Seen:
    """A ride of some updates: how they were counted, where their time went, whether it stopped where it should."""
    began = time.monotonic()
    seen = ride(script, updates=public.updates, seconds=limit_s, grace_s=GRACE_S, patience_s=limit_s)
    return {"seconds": time.monotonic() - began, **split(public, seen)}


def split(public: Public, seen: Ride) -> Seen:
    """What the table says of a ride."""
    training = seen.stream.training
    tick = training.tick if training is not None else None
    trained = [process.updates for process in seen.stream.processes if process.updates]
    return {
        "reason": seen.reason,
        "status": seen.status,
        "updates": trained,
        "asked": public.updates,
        "exact": bool(trained) and set(trained) == {public.updates},
        "startup_s": seen.startup_s,
        "troubles": [f"{trouble.where}: {trouble.says}" for trouble in seen.stream.troubles],
        "wrote": len(seen.wrote),
        "touched": list(seen.touched),
        "tick": None if tick is None else told(tick),
        **unnamed(seen),
        "words": None if seen.complete else (seen.words or "")[-LAST_WORDS:],
    }


def unnamed(seen: Ride) -> Seen:
    """The share of the time that neither a watched call nor a line accounts for, and the lines of the largest gap."""
    found = evidence(seen.stream)
    trace = next((item for item in found if isinstance(item, ScriptTrace)), None)
    timeline = next((item for item in found if isinstance(item, StepTimeline)), None)
    if trace is None or timeline is None:
        return {"unattributed": None, "stretch": None}
    gaps = sorted((name for name in timeline.phases if name.startswith(GAP)), key=timeline.share)
    lines = trace.gaps.get(gaps[-1], ())[:3] if gaps else ()
    stretch = ", ".join(
        f"{Path(one.file).name}:{one.first}–{one.last}{f' ({one.framework})' if one.framework else ''}" for one in lines
    )
    return {"unattributed": trace.unattributed, "stretch": stretch or None}


def told(tick: Tick) -> Seen:
    """The split of a tick, in shares of the wall."""
    wall = tick.wall_s or 1.0
    phases = {name: sum(parts) / wall for name, parts in tick.phases.items()}
    gaps = {name: share for name, share in phases.items() if name.startswith(GAP)}
    usual, times = max(tick.events.items(), key=lambda item: item[1], default=("", 0))
    return {
        "counted_by": tick.counted_by,
        "cycle": tick.cycle,
        "usual": usual,
        "usual_share": times / max(sum(tick.events.values()), 1),
        "kinds_of_update": len(tick.events),
        "phases": phases,
        "gap": sum(gaps.values()),
        "largest_gap": max(gaps, key=gaps.__getitem__, default=None),
        "line": line_of(tick, max(gaps, key=gaps.__getitem__, default=None)),
        "off_by_s": sum(sum(parts) for parts in tick.phases.values()) - tick.wall_s,
        "own": phases.get("netdyno", 0.0),
        "wall_s": tick.wall_s,
        "losses": [tick.first_loss, tick.last_loss],
    }


def line_of(tick: Tick, phase: str | None) -> str | None:
    """The line of the author's code that most samples of a phase fell on."""
    there: Counter[str] = Counter()
    for line in tick.lines:
        if line.phase == phase:
            there[f"{Path(line.file).name}:{line.line}"] += line.samples
    return there.most_common(1)[0][0] if there else None


def told_by(words: tuple[str, ...], public: Public, script: Script, *, store: Path, limit_s: float) -> Seen:
    """What `netdyno doctor` or `netdyno tune` made of the script: their record, read back from the store."""
    records = store / "records"
    before = set(records.glob("*.json"))
    argv = (sys.executable, "-m", "netdyno", *words, "--progress", "none", "--store", str(store), "--", *script.argv)
    began = time.monotonic()
    done = subprocess.run(
        argv, cwd=script.cwd, capture_output=True, text=True, check=False, timeout=limit_s, stdin=subprocess.DEVNULL
    )
    made = sorted(set(records.glob("*.json")) - before, key=lambda file: file.stat().st_mtime)
    seen: Seen = {"seconds": time.monotonic() - began, "status": done.returncode, "words": done.stderr[-LAST_WORDS:]}
    if not made:
        return {**seen, "failed": f"no record, exit status {done.returncode}"}
    record = Store(store).load(str(made[-1]))
    return {**seen, "record": record.id, **findings(record), **gains(record)}


def findings(record: Record) -> Seen:
    """What the rules found, and which said nothing."""
    return {
        "found": [
            {
                "rule": outcome.rule,
                "says": outcome.finding.says,
                "where": None
                if outcome.finding.where is None
                else f"{Path(outcome.finding.where.file).name}:{outcome.finding.where.line}",
            }
            for outcome in record.outcomes
            if outcome.state == "found" and outcome.finding is not None
        ],
        "suspected": [outcome.rule for outcome in record.outcomes if outcome.state == "suspected"],
        "failed_rules": [outcome.rule for outcome in record.outcomes if outcome.state == "failed"],
        "failures": [failure.says for failure in record.failures],
    }


def gains(record: Record) -> Seen:
    """The kept changes with the total that was measured apart, if anything was kept."""
    if record.attribution is None or not record.recipe:
        return {"recipe": [change.id for change in record.recipe], "tried": len(record.trials)}
    speedup = record.attribution.speedup
    return {
        "recipe": [change.id for change in record.recipe],
        "numerics": sorted({trial.numerics for trial in record.trials if trial.change in record.recipe}),
        "tried": len(record.trials),
        "speedup": [speedup.middle, speedup.low, speedup.high],
        "patch": None if record.patch is None else record.patch.verified,
    }


def battery(public: Public, options: argparse.Namespace) -> Seen:
    """Every stage that was asked for and has not been done yet; a stage that fails leaves its reason."""
    file = options.root / "results" / f"{public.name}.json"
    seen: Seen = json.loads(file.read_text()) if file.exists() and not options.again else {}
    os.environ.update(environment(public, options.root))
    stages = {"bare": lambda: bare(public, options.root, options.python, limit_s=options.limit)} if options.bare else {}
    stages["attach"] = lambda: attached(public, the_script(public, options), limit_s=options.limit)
    if options.doctor:
        words = ("doctor", "--updates", str(public.updates))
        stages["doctor"] = lambda: diagnosed(words, public, options, patience_s=options.limit)
    if options.tune and public.tune:
        words = ("tune", "--budget", f"{options.tune}s")
        # Start-up, the last verification and the clean-up come on top of the budget.
        stages["tune"] = lambda: diagnosed(words, public, options, patience_s=2 * options.tune + options.limit)
    for stage, do in stages.items():
        if stage not in seen:
            print(f"{public.name}: {stage}", flush=True)
            seen[stage] = attempted(do)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(seen, indent=1))
            print(f"  {in_short(stage, seen[stage])}", flush=True)
    return seen


def attempted(do) -> Seen:
    """What a stage says, or why it said nothing."""
    try:
        return do()
    except NetdynoError as error:
        return {"failed": str(error)}
    except subprocess.TimeoutExpired as error:
        return {"failed": f"no answer within {error.timeout:.0f} s"}
    except Exception as error:  # one script's trouble is not the battery's end
        return {"failed": f"{type(error).__name__}: {error}"}


def the_script(public: Public, options: argparse.Namespace, *, whole: bool = False) -> Script:
    words = command(public, options.root, options.python, whole=whole)
    return parse(None, words, cwd=options.root / public.folder)


def diagnosed(words: tuple[str, ...], public: Public, options: argparse.Namespace, *, patience_s: float) -> Seen:
    store = options.root / "results" / "store" / public.name
    script = the_script(public, options, whole=words[0] == "tune")
    return told_by(words, public, script, store=store, limit_s=patience_s)


def in_short(stage: str, seen: Seen) -> str:
    """A stage in a line for whoever waits."""
    if "failed" in seen:
        return f"failed: {seen['failed'].splitlines()[0] if seen['failed'] else '?'}"
    if stage == "bare":
        return f"{seen['state']} after {seen['seconds']:.0f} s"
    if stage == "attach":
        tick = seen["tick"]
        return f"{seen['reason']} at {seen['updates']}" + (f", gap {tick['gap']:.0%}" if tick else "")
    return ", ".join([*(found["rule"] for found in seen["found"]), *seen["recipe"]]) or "nothing"


def table(everything: dict[str, Seen]) -> str:
    """The page of results: what was attached to, what was found, what was won."""
    done = [(public, everything[public.name]) for public in PUBLIC if everything.get(public.name)]
    parts = [HEAD, summary(done), "", "## Attached, split, stopped", "", ATTACH_HEAD]
    parts += [attach_row(public, seen["attach"]) for public, seen in done if "attach" in seen]
    if any("doctor" in seen for _, seen in done):
        parts += ["", "## What the doctor says", "", DOCTOR_HEAD]
        parts += [doctor_row(public, seen["doctor"]) for public, seen in done if "doctor" in seen]
    if any("tune" in seen for _, seen in done):
        parts += ["", "## Tuned", "", TUNE_HEAD]
        parts += [tune_row(public, seen["tune"]) for public, seen in done if "tune" in seen]
    return "\n".join([*parts, "", FOOT])


FOOT = """## What falls short

- The scripts that *failed* above do so without netdyno too: two want a GPU, two an environment package that no longer works with
  NumPy 2, one has an error of its own.
- `hidden-syncs` is missed on both word language models on purpose: they read the loss back on every step, and on a CPU that
  costs nothing that can be measured. The reads are counted and stand in the record. The Siamese loader's fixed order is told as
  a suspicion, since its batches show no labels.
- `contended-machine` is about the machine at that hour, not about a script.
- Scripts were tuned for 150 seconds (ten of them) or 300 to 500 on one core, one run each, whatever came of it but for two whose
  patch or attribution did not fit into the first budget. With steps of half a second
  that is one trial; with the default of ten minutes more is tried.
"""
HEAD = """# Public scripts

Training scripts that others wrote, unmodified, each started by its own command line.
`python benchmarks/corpus.py --root FOLDER --python INTERPRETER --doctor --tune SECONDS`; the list and the known defects
stand in `benchmarks/corpus_list.py`. A gap is time inside no call that is watched; it is named by what came before it, with the
line of the script that most samples fell on. Where a row says *failed* the script's own words, or ours, follow.
"""
ATTACH_HEAD = (
    "| Script | Stopped | Counted by, cycle | Usual update | Gap | Without a name | Largest gap, lines | Own cost |\n"
    + "| --- " * 8
    + "|"
)
DOCTOR_HEAD = "| Script | Found | Known before | Known and found |\n" + "| --- " * 4 + "|"
TUNE_HEAD = "| Script | Kept | Numbers | Speed-up, 95 % | Trials | Patch verified |\n" + "| --- " * 6 + "|"


def summary(done: list[tuple[Public, Seen]]) -> str:
    rides = [seen["attach"] for _, seen in done if "attach" in seen]
    split_up = [seen for seen in rides if seen.get("tick") and sum(seen["updates"])]
    exact = sum(seen["exact"] for seen in split_up)
    named = [seen for seen in split_up if (seen.get("unattributed") or 0.0) <= 0.02]
    own_end = sum(seen["reason"] == "ended" and not seen["exact"] for seen in split_up)
    return (
        f"{len(rides)} scripts: {len(split_up)} attached and split, of which {exact} stopped at exactly the update that was "
        f"asked for and {own_end} came to their own end before. Of {len(named)} the time is known by call or line to within 2 %."
    )


def attach_row(public: Public, seen: Seen) -> str:
    if "failed" in seen or not seen.get("tick"):
        why = (seen.get("failed") or seen.get("words") or seen.get("reason") or "").replace("\n", " ").replace("|", "¦")
        return f"| {public.name} | failed: {why[:240]} {f'({public.note})' if public.note else ''} | | | | | | |"
    tick = seen["tick"]
    at = "×".join(str(count) for count in seen["updates"]) or "0"
    largest = (
        f"{tick['largest_gap']}, {seen.get('stretch') or tick['line'] or 'no sample'}"
        if tick["largest_gap"]
        else "none"
    )
    nameless = f"{seen['unattributed']:.1%}" if seen.get("unattributed") is not None else "–"
    return (
        f"| {public.name} | {seen['reason']} at {at} of {seen['asked']} | {tick['counted_by']}, {tick['cycle']} "
        f"| `{tick['usual'][:90]}` ({tick['usual_share']:.0%}) | {tick['gap']:.0%} | {nameless} | {largest} | {tick['own']:.1%} |"
    )


def doctor_row(public: Public, seen: Seen) -> str:
    if "failed" in seen:
        return f"| {public.name} | failed: {seen['failed'].splitlines()[0][:200]} | | |"
    found = [f"{found['rule']}{' (' + found['where'] + ')' if found['where'] else ''}" for found in seen["found"]]
    rules = {found["rule"] for found in seen["found"]}
    hit = [rule for rule in public.defects if rule in rules]
    missed = [rule for rule in public.defects if rule not in rules]
    verdict = ", ".join([*(f"{rule} ✓" for rule in hit), *(f"{rule} missed" for rule in missed)])
    return (
        f"| {public.name} | {', '.join(found) or 'nothing'} | {', '.join(public.defects) or '–'} | {verdict or '–'} |"
    )


def tune_row(public: Public, seen: Seen) -> str:
    if "failed" in seen:
        return f"| {public.name} | failed: {seen['failed'].splitlines()[0][:200]} | | | | |"
    speedup = seen.get("speedup")
    won = f"×{speedup[0]:.2f} [{speedup[1]:.2f}, {speedup[2]:.2f}]" if speedup else "–"
    patch = {True: "yes", False: "no", None: "–"}[seen.get("patch")]
    numbers = ", ".join(seen.get("numerics", ())) or "–"
    return (
        f"| {public.name} | {', '.join(seen['recipe']) or 'nothing'} | {numbers} | {won} | {seen['tried']} | {patch} |"
    )


def main() -> None:
    """Read the command line and run the battery."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="the folder that holds one checkout per repository")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the interpreter of the scripts")
    parser.add_argument("--only", action="append", help="this script and no other; repeat")
    parser.add_argument("--bare", action="store_true", help="also start each without netdyno")
    parser.add_argument("--doctor", action="store_true", help="also ask the doctor")
    parser.add_argument("--tune", type=int, default=0, metavar="SECONDS", help="also tune those marked for it")
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="the most one look may take")
    parser.add_argument("--again", action="store_true", help="do again what was done before")
    options = parser.parse_args()
    options.root = options.root.resolve()
    options.python = Path(os.path.abspath(options.python))  # a link into a virtual environment must stay a link
    before = dict(os.environ)
    for public in PUBLIC:
        if not options.only or public.name in options.only:
            os.environ.clear()
            os.environ.update(before)
            battery(public, options)
    kept = {file.stem: json.loads(file.read_text()) for file in (options.root / "results").glob("*.json")}
    page = table(kept).replace(str(options.root.resolve()) + "/", "")  # whose machine it was is nobody's business
    RESULTS.write_text(page, encoding="utf8")
    print(f"written: {RESULTS}")


if __name__ == "__main__":
    main()
