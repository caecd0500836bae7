"""Faults of training, inference and deployment at the gate and on the ladder of parity, and forty-odd healthy releases that must pass.

    python benchmarks/gate_faults.py --write docs/results/gate-faults.md

Each fault is planted in three hosts (benchmarks/gate_releases.py) and put to the gate. What the gate lets through is exported in a process of
its own where the fault shows only in what was made, loaded in another, and put to the ladder of parity and the accuracy guard. A healthy
release is exported to ONNX Runtime (TorchScript where that cannot be) and goes the same way. A stop of a healthy one is a false stop.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import gate_releases as releases
from netdyno.errors import ArmError
from netdyno.records.deployment import Precision, Running
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes._base import Arrays, Call
from netdyno.runtimes._export import Spec, calibration, export
from netdyno.runtimes._process import Process
from netdyno.runtimes.onnx_runtime import OnnxRuntime
from netdyno.runtimes.torchscript import Torchscript
from netdyno.shipping import accuracy, parity
from netdyno.shipping.gate import gate, stops
from netdyno.shipping.subject import Subject, flat, opened
from netdyno.targets.release import Release

SIZES = (1, 2, 4, 8)
LIMIT = 0.005
HERE = False
TIMEOUT_S = 400.0
NAMES = {"torchscript": "TorchScript", "onnx": "ONNX Runtime", "int8": "ONNX Runtime in int8"}
RUNTIMES = {"torchscript": Torchscript(), "onnx": OnnxRuntime(), "int8": OnnxRuntime(precision="int8")}


class Stop(NamedTuple):
    """Who stopped a release, by which item, rung or decision, and the reason. Nobody: it passed."""

    by: str = ""
    item: str = ""
    says: str = ""
    warned: tuple[str, ...] = ()


def put(release: Release, reference: str, made: str) -> Stop:
    """The gate, then what was made of the release."""
    checks = gate(release)
    warned = tuple(check.name for check in checks if check.ok is False and check.warning and check.name != "grad-guard")
    if stops(checks):
        failed = [check for check in checks if check.ok is False and not check.warning]
        return Stop("gate", ", ".join(check.name for check in failed), failed[0].says, warned)
    if not made:
        return Stop(warned=warned)
    try:
        subject = opened(reference, release)
        with _made(subject, made) as (call, precision):
            return _judged(subject, call, precision)._replace(warned=warned)
    except ArmError as error:
        return Stop("export", made, error.says, warned)


def _judged(subject: Subject, call: Call, precision: Precision) -> Stop:
    rungs = parity.ladder(subject, call, precision=precision, sizes=SIZES)
    broken = [rung for rung in rungs if rung.holds is False]
    if broken:
        more = f" and {len(broken) - 1} more rungs" if len(broken) > 1 else ""
        return Stop("parity", f"{broken[0].name}{more}", broken[0].says)
    found = accuracy.guard(subject, call, limit=LIMIT)
    if found is not None and found.decision == "broken":
        return Stop("accuracy", "guard", found.says)
    return Stop()


@contextmanager
def _made(subject: Subject, made: str) -> Iterator[tuple[Call, Precision]]:
    """What was made of a subject, as a call: exported in a process of its own, or in this one for what no runtime here makes."""
    if made == "half":
        model = subject.release.module().eval().half()
        yield runtimes.checked(lambda arrays: _in_half(model, arrays), subject.signature), "fp16"
    elif made == "fixed":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(subject.model, subject.example).module()
        yield runtimes.checked(lambda arrays: flat(program(*map(torch.from_numpy, arrays))), subject.signature), "fp32"
    else:
        runtime = RUNTIMES[made]
        with tempfile.TemporaryDirectory() as folder:
            if HERE:
                runtime.export(_exportable(subject), Path(folder))
                call = runtimes.padded(runtime.load(Path(folder), Running()), () if subject.dynamic else SIZES)
                yield runtimes.checked(call, subject.signature), runtime.precision
                return
            change = runtimes.written(runtime)
            export(
                Spec(
                    reference=subject.reference, change=change, folder=folder, signature=subject.signature, batches=SIZES,
                    dynamic=subject.dynamic,
                ),
                timeout_s=TIMEOUT_S,
            )  # fmt: skip
            with Process(change, Path(folder), Running(), subject.signature, timeout_s=TIMEOUT_S) as process:
                yield process.run, runtime.precision


def _exportable(subject: Subject) -> runtimes.Exportable:
    return runtimes.Exportable(
        reference=subject.reference,
        model=subject.model,
        example=subject.example,
        signature=subject.signature,
        calibration=calibration(subject.release, subject.example, rows=100),
        batches=SIZES,
        dynamic=subject.dynamic,
    )


def _in_half(model: torch.nn.Module, arrays: Arrays) -> Arrays:
    with torch.inference_mode():
        return tuple(
            np.asarray(one, np.float32) for one in flat(model(*(torch.from_numpy(array).half() for array in arrays)))
        )


def _twin_made(fault: releases.Fault) -> str:
    """What the healthy twin is made into; a baked number of rows is healthy when it is not baked."""
    return "torchscript" if fault.made in {"fixed", "half"} else fault.made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a Markdown file for the result")
    parser.add_argument("--only", nargs="*", default=[], help="faults (T07) or words of healthy names")
    parser.add_argument("--gate-only", action="store_true", help="export nothing: the gate alone")
    parser.add_argument(
        "--here",
        action="store_true",
        help="export and load in this process: two more processes each time take long on a busy machine",
    )
    parser.add_argument(
        "--healthy", default="onnx", choices=sorted(RUNTIMES), help="what healthy releases are made into"
    )
    options = parser.parse_args()
    global HERE  # noqa: PLW0603  one switch of a script
    HERE = options.here
    torch.set_num_threads(1)
    began = time.monotonic()

    def wanted(*words: str) -> bool:
        return not options.only or any(one in word for one in options.only for word in words)

    sick, false = [], []
    for at, fault in enumerate(releases.faults()):
        if not wanted(fault.id, fault.what):
            continue
        made = "" if options.gate_only else fault.made
        found = _safely(fault.sick, f"sick{at}", made)
        twin = _safely(fault.well, f"well{at}", "" if options.gate_only else _twin_made(fault))
        sick.append((fault, found, twin))
        print(
            f"{fault.id:4} {fault.what:36} {fault.host:10} {found.by or 'MISSED':9} {found.item} | {_first(found.says)}",
            flush=True,
        )
        if twin.by:
            print(f"     FALSE STOP of the twin: {twin}", flush=True)
    for at, one in enumerate(releases.healthy()):
        if not wanted(one.name):
            continue
        found = _safely(lambda one=one: one.release, f"healthy{at}", "" if options.gate_only else options.healthy)
        how = NAMES[options.healthy]
        if found.by == "export" and options.healthy != "torchscript":
            found, how = (
                _safely(lambda one=one: one.release, f"healthy{at}", "torchscript"),
                f"TorchScript ({_first(found.says)[:80]})",
            )
        false.append((one, found, how))
        print(
            f"{'well' if not found.by else 'FALSE STOP'} {one.name}: {how} {found.by} {found.item} {_first(found.says)} {found.warned}",
            flush=True,
        )
    text = page(sick, false, time.monotonic() - began)
    print(text)
    if options.write is not None:
        options.write.write_text(text)
    raise SystemExit(
        1 if any(not found.by or twin.by for _, found, twin in sick) or any(found.by for _, found, _ in false) else 0
    )


def _safely(make: Callable[[], Release], name: str, made: str) -> Stop:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return put(make(), f"{releases.HERE}:{name}", made)


def _first(text: str) -> str:
    return (text.splitlines() or [""])[0][:160]


def page(sick: list, healthy: list, seconds: float) -> str:
    """The tables."""
    stopped = sum(bool(found.by) for _, found, _ in sick)
    twins = sum(bool(twin.by) for _, _, twin in sick)
    false = sum(bool(found.by) for _, found, _ in healthy)
    lines = [
        "# Faults at the gate and on the ladder of parity",
        "",
        f"    python benchmarks/gate_faults.py {' '.join(sys.argv[1:])}",
        "",
        f"{stopped} of {len(sick)} planted faults are stopped; {twins} of their {len(sick)} healthy twins and {false} of {len(healthy)} healthy releases are stopped",
        f"wrongly. {seconds / 60:.0f} minutes on one busy core.",
        "",
        "Each fault is planted in three hosts and put to the gate; where it shows only in what was made of the module, the release is exported",
        f"{'and loaded in one process (`--here`)' if HERE else 'in a process of its own, loaded in another'}, and put to the ladder of parity",
        "and the accuracy guard. A healthy release goes the same way.",
        "",
        "A fault whose score had to be declared (`Release.score`) is T13 and P10: without it nobody could see them. The hosts and the items were made by",
        "the same hands: the faults are those of a list that was written before, but nobody else's programs are among them.",
        "",
        "## Stopped by whom",
        "",
        "| fault | what is planted | first host | second host | third host |",
        "|---|---|---|---|---|",
    ]
    by_fault: dict[tuple[str, str], list[str]] = {}
    for fault, found, _ in sick:
        told = (
            f"{fault.host}: {found.by}, {found.item}"
            if found.by
            else f"{fault.host}: **missed**" + (f" (warned: {', '.join(found.warned)})" if found.warned else "")
        )
        by_fault.setdefault((fault.id, fault.what), []).append(told)
    lines += [f"| {which} | {what} | {' | '.join(told)} |" for (which, what), told in by_fault.items()]
    lines += ["", "Faults of the list that cannot be seen when a module is shipped:", ""]
    lines += [f"- {one.id}, {one.what}: {one.reason}." for one in releases.UNSEEN]
    lines += [
        "",
        "## Healthy releases",
        "",
        "| release | made with | tempts | stopped | warned |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.name} | {how} | {one.tempts} | {f'**{found.by}: {found.item}**' if found.by else 'no'} | {', '.join(found.warned)} |"
        for one, found, how in healthy
    ]
    missed = [(fault, found) for fault, found, _ in sick if not found.by]
    wrong = [(fault, twin) for fault, _, twin in sick if twin.by]
    if missed or wrong:
        lines += ["", "## What falls short", ""]
        lines += [f"- {fault.id}, {fault.what} ({fault.host}): nobody stopped it." for fault, _ in missed]
        lines += [
            f"- the twin of {fault.id}, {fault.what} ({fault.host}): stopped by {twin.by}, {twin.item}: {twin.says}"
            for fault, twin in wrong
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
