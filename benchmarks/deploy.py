"""Is what `netdyno deploy` ships as quick as the best single tool by hand, at what cost, and how far does the ladder go?

    python benchmarks/deploy.py [--only resnet18,mobilenet,bytes] [--root FOLDER] [--budget 900] [--exhaustive] [--write FILE]

Three trained models (benchmarks/ship_models.py). Each is deployed; then the package's artefact, every rival of benchmarks/ship_rivals.py and
the module in eager PyTorch answer one row at a time in the same turns, over fresh spawns, on one thread each, because a busy machine
tells nothing of several. Accuracy is the paired guard of netdyno for all of them alike. With `--exhaustive` the same model is deployed
once more with nothing left out and from an empty store, and the two costs are compared. Whatever is done is kept in FOLDER.
"""

import argparse
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

import ship_rivals
from netdyno.errors import ArmError
from netdyno.records.deployment import Candidate, Running, Shipment, ShipPlan
from netdyno.records.trial import Change
from netdyno.runtimes._process import Process
from netdyno.shipping import accuracy, race, walk
from netdyno.shipping.exports import Exports
from netdyno.shipping.journey import EAGER
from netdyno.shipping.subject import opened, real_rows
from netdyno.store.documents import Documents
from netdyno.verdicts.slo import parse

HERE = Path(__file__).resolve().parent
MODELS = {"resnet18": "ResNet18", "mobilenet": "MobileNet", "bytes": "Bytes"}
SPAWNS, ROUNDS, BURST_S = 3, 6, 0.3
LIMIT = 0.01
SERVE = (str(HERE / "ship_rivals.py"), "serve")


def reference(name: str) -> str:
    return f"{HERE / 'ship_models.py'}:{MODELS[name]}"


def deployed(name: str, folder: Path, budget_s: float, *, exhaustive: bool) -> Shipment:
    """The deployment of a model, kept: its cost is that of a store without exports."""
    shelf = Documents(folder / name / ("all" if exhaustive else "search"))
    done = [line for line in shelf.list(Shipment) if line.finished]
    if done:
        return shelf.load(Shipment, done[0].id)
    plan = ShipPlan(
        objective=parse(f"drop<={100 * LIMIT:g}%"), budget_s=budget_s, batches=(1, 8), threads=(1,), exhaustive=exhaustive,
        timeout_s=900.0,
    )  # fmt: skip
    return walk.deploy(
        reference(name), plan, shelf=shelf, package=folder / name / ("all" if exhaustive else "search") / "package",
        listener=lambda event: print(f"  {event.done:6.0f} s  {event.doing}", flush=True), command="benchmarks/deploy.py",
    )  # fmt: skip


def rival(name: str, model: str, folder: Path) -> tuple[Path | None, float, str]:
    """A rival's artefact, what it cost to build, and why there is none."""
    place = folder / model / "rivals" / name
    note = place / "note.json"
    if not note.is_file():
        place.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        try:
            words = [sys.executable, str(HERE / "ship_rivals.py"), "export", name, reference(model), str(place)]
            done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=900)
            failed = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1][:160]
        except subprocess.TimeoutExpired:
            failed = "not done after 900 s"
        note.write_bytes(msgspec.json.encode({"seconds": time.monotonic() - began, "failed": failed}))
    told = msgspec.json.decode(note.read_bytes())
    return (None if told["failed"] else place), told["seconds"], told["failed"]


def compared(model: str, shipment: Shipment, folder: Path) -> list[list[str]]:
    """All sides in the same turns, and the accuracy of each."""
    subject = opened(reference(model))
    held = real_rows(subject, 64)
    running = Running(threads=1, batches=(1,))
    exports = Exports(folder / model / "search" / "exports")
    winner = shipment.candidates[shipment.winner]
    eager = exports.path(exports.built(subject, EAGER, batches=(1, 8), timeout_s=600).key)
    ours = {"netdyno": winner, "netdyno-whole": on_whole_images(shipment)}
    starts = {"eager": lambda: Process(EAGER, eager, running, subject.signature)}
    for name, way in ours.items():
        if way is not None:
            starts[name] = lambda way=way: Process(way.change, exports.path(way.built.key), running, subject.signature)
    costs, failures = {"netdyno": shipment.wall_s}, {}
    for name in ship_rivals.RIVALS:
        place, costs[name], why = rival(name, model, folder)
        if place is None:
            failures[name] = why
            continue
        starts[name] = lambda name=name, place=place: Process(
            Change(id=name), place, running, subject.signature, program=SERVE, timeout_s=600
        )
    chance = random.Random(0)
    ratios: dict[str, list[list[float]]] = {name: [] for name in starts}
    times: dict[str, list[float]] = {name: [] for name in starts}
    right = {}
    for spawn in range(SPAWNS):
        with ExitStack() as stack:
            sides = {}
            for name, start in starts.items():
                try:
                    side = stack.enter_context(start())
                    side.hold(held)
                    if spawn == 0 and name != "eager":
                        right[name] = accuracy.guard(subject, side.run, limit=LIMIT)
                    sides[name] = side
                except ArmError as error:
                    failures[name] = error.says[:160]
            taken = {name: [] for name in sides}
            for _ in range(ROUNDS):
                for name in chance.sample(list(sides), len(sides)):
                    taken[name].append(sides[name].burst(1, BURST_S).own)
            for name in sides:
                times[name] += taken[name]
                pairs = race.Paired(
                    tuple(taken["eager"]), tuple(taken[name]), ("AB",) * ROUNDS, (spawn,) * ROUNDS, (), 0.0, 0.0
                )
                ratios[name].append(pairs)
    rows = []
    for name in starts:
        if not times[name]:
            continue
        got = race.speedup(race.joined(ratios[name]), 0.95) if name != "eager" else None
        kept = right.get(name)
        rows.append([
            model, f"**netdyno: {ours[name].label}**" if name in ours else name, f"{1e3 * median(times[name]):.3g} ms",
            f"{got.middle:.2f} ({got.low:.2f} to {got.high:.2f})" if got else "1",
            f"{100 * kept.treatment:.2f} %" if kept else "", kept.decision if kept else "", f"{costs.get(name, 0.0):.0f} s",
        ])  # fmt: skip
    rows += [[model, name, f"failed: {why}", "", "", "", ""] for name, why in failures.items()]
    return rows


def on_whole_images(shipment: Shipment) -> Candidate | None:
    """Where smaller images are shipped, the quickest way on images as they come: rivals have these. The bench judges its accuracy."""
    if shipment.candidates[shipment.winner].side is None:
        return None
    there = [one for one in shipment.candidates if one.side is None and one.speedup and one.failed is None]
    return max(there, key=lambda one: one.speedup.middle, default=None)


HEAD = ["model", "side", "P50 of one row", "times eager (95 %)", "accuracy", "1 % guard", "cost"]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def ladder(shipments: dict[str, Shipment]) -> str:
    rows = []
    for name, shipment in shipments.items():
        for step in shipment.ladder:
            ratio = f"{step.ratio.middle:.2f}" if step.ratio else "1"
            if step.ratio and step.ratio.high < 900:
                ratio += f" ({step.ratio.low:.2f} to {step.ratio.high:.2f})"
            accuracy_ = f"{100 * step.accuracy:.2f} %" if step.accuracy is not None else ""
            rows.append([name, step.name, f"{1e3 * step.seconds.middle:.3g} ms", ratio, accuracy_])
        rows.append([name, "roofline", shipment.roofline, "", ""])
    return table(["model", "rung", "P50", "times eager", "accuracy"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(MODELS))
    parser.add_argument("--root", type=Path, default=Path(".netdyno/deploy-bench"))
    parser.add_argument("--budget", type=float, default=900.0)
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    shipments, rows, costs = {}, [], []
    for name in asked.only.split(","):
        print(name, flush=True)
        shipments[name] = deployed(name, asked.root, asked.budget, exhaustive=False)
        rows += compared(name, shipments[name], asked.root)
        if asked.exhaustive:
            whole = deployed(name, asked.root, 100 * asked.budget, exhaustive=True)
            quick, full = (sum(one.cost_s for one in each.candidates) for each in (shipments[name], whole))
            same = (
                whole.winner is not None
                and whole.candidates[whole.winner].change == shipments[name].candidates[shipments[name].winner].change
            )
            costs.append(
                [
                    name,
                    f"{quick:.0f} s",
                    f"{full:.0f} s",
                    f"{quick / full:.2f}",
                    "the same" if same else whole.candidates[whole.winner].change.label,
                ]
            )
        text = f"{table(HEAD, rows)}\n\n## The ladder\n\n{ladder(shipments)}\n"
        if costs:
            text += f"\n## What the search costs\n\n{table(['model', 'search', 'exhaustive', 'ratio', 'winner of both'], costs)}\n"
        print(text, flush=True)
        if asked.write:
            asked.write.write_text(text)


if __name__ == "__main__":
    main()
