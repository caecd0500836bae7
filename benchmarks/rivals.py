"""Beside the rivals: the same two programs, in one session, under every tool that says it makes training faster.

    OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/rivals.py --venv FOLDER

Program one trains a small MLP whose every sample sleeps 2 ms: what is wrong is known, and so is the cure (more loader
workers than cores). Program two is a ResNet-like CNN on generated images. Rivals get a plain script, netdyno a
work.py; both take data, model and optimizer from one file. The tools are installed by name into a virtual environment
outside the repository; one that does not install or run gets a row with its last line. Wall time is a watch's, CPU
time that of the whole tree of processes. Writes docs/results/rivals.md.

`--render` writes the table again from the last session's answers.
"""

import argparse
import ctypes
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any, NamedTuple

import psutil

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs" / "results" / "rivals.md"
TORCH = "torch==2.13.0"
RIVALS = {
    "train-doctor": "train-doctor==0.2.0",
    "pytorch-autotune": "pytorch-autotune==2.0.0",
    "traceml-ai": "traceml-ai==0.5.0",
    "lightning": "lightning==2.6.*",
}
INSTALL_S, TOOL_S = 600, 480
BUDGET_S = 120  # of each tuner that takes one

PARTS = '''
"""What all sides train: the same data, models and optimizer."""

import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset


class Waiting(Dataset):
    """Rows of 64 numbers, each of which arrives 2 ms late."""

    def __init__(self, count=512, seed=0):
        chance = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(count, 64, generator=chance)
        self.targets = torch.randint(0, 10, (count,), generator=chance)

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        time.sleep(0.002)
        return self.inputs[index], self.targets[index]


def waiting_val():
    return Waiting(count=64, seed=1)


def mlp():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-3)


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.inside = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.beside = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.beside = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.inside(x) + self.beside(x))


def cnn():
    widths = (16, 32, 64, 128)
    stages = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    for before, width in zip((16, *widths), widths):
        stages += [Block(before, width, 1 if before == width else 2), Block(width, width, 1)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def images(count=2048, seed=0):
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, 32, 32, generator=chance), torch.randint(0, 10, (count,), generator=chance)


def image_set():
    return TensorDataset(*images())


def image_val():
    return TensorDataset(*images(count=256, seed=1))
'''

WORK = """
import parts
from netdyno import Workload

SLEEPING = Workload(
    name="sleeping", model=parts.mlp, train=parts.Waiting, val=parts.waiting_val, optimizer=parts.adamw, batch_size=16
)
CNN = Workload(
    name="cnn", model=parts.cnn, train=parts.image_set, val=parts.image_val, optimizer=parts.adamw, batch_size=32
)
"""

PLAIN = """
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

import parts


def advance(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.manual_seed(0)
    model = parts.{model}()
    optimizer = parts.adamw(model.parameters())
    loader = DataLoader(parts.{data}(), batch_size={batch}, shuffle=True, num_workers=0)
    for epoch in range({epochs}):
        for inputs, targets in loader:
            loss = advance(model, optimizer, inputs, targets)
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
"""

AUTOTUNED = """
import sys

import torch
from pytorch_autotune import autotune

import parts

torch.manual_seed(0)
device = {"device": sys.argv[1]} if len(sys.argv) > 1 else {}
found = autotune(parts.cnn(), parts.images(count=32), lr=3e-3, budget=BUDGET, cache=False, verbose=False, **device)
print(found.report.to_json())
"""

# The winners of wall-clock tuners, weighed by time on a core, which a busy neighbour does not add to.
WEIGHED = """
import json
import statistics
import time

import torch
from torch.nn import functional as F

import parts


def stepper(*, layout, compiled):
    torch.manual_seed(0)
    model = parts.cnn().to(memory_format=layout)
    optimizer = parts.adamw(model.parameters())
    called = torch.compile(model) if compiled else model
    inputs, targets = parts.images(count=32)
    inputs = inputs.to(memory_format=layout)

    def step():
        began = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(called(inputs), targets).backward()
        optimizer.step()
        return time.process_time() - began

    return step


sides = {
    "plain": stepper(layout=torch.contiguous_format, compiled=False),
    "channels-last": stepper(layout=torch.channels_last, compiled=False),
    "compiled, channels-last": stepper(layout=torch.channels_last, compiled=True),
}
times = {name: [] for name in sides}
for turn in range(23):
    for name, step in sides.items():
        seconds = step()
        if turn >= 3:
            times[name].append(seconds)
ratios = {}
for name in list(sides)[1:]:
    pairs = sorted(plain / other for plain, other in zip(times["plain"], times[name]))
    ratios[name] = statistics.median(pairs)
print(json.dumps({"plain_ms": statistics.median(times["plain"]) * 1e3, "ratios": ratios}))
"""

# What more workers are worth, over whole epochs, so that starting the workers is in it. Time is a watch's: the
# program sleeps, and what it waits for is what is asked.
EPOCHS_OF_WORKERS = """
import json
import statistics
import time

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

import parts


def epoch(workers):
    torch.manual_seed(0)
    model = parts.mlp()
    optimizer = parts.adamw(model.parameters())
    began, steps = time.perf_counter(), 0
    for inputs, targets in DataLoader(parts.Waiting(), batch_size=16, shuffle=True, num_workers=workers):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        steps += 1
    return (time.perf_counter() - began) / steps


times = {workers: [] for workers in (0, 2, 4, 8)}
for turn in range(9):
    for workers, row in times.items():
        row.append(epoch(workers))
ratios = {}
for workers in (2, 4, 8):
    pairs = [plain / other for plain, other in zip(times[0], times[workers])]
    ratios[f"{workers} workers"] = statistics.median(pairs)
print(json.dumps({"plain_ms": statistics.median(times[0]) * 1e3, "ratios": ratios}))
"""

LIGHTNING = """
import json
import sys
import warnings

import lightning
import torch
from lightning.pytorch.profilers import SimpleProfiler
from lightning.pytorch.tuner import Tuner
from torch.nn import functional as F
from torch.utils.data import DataLoader

import parts

warnings.simplefilter("ignore")


class Module(lightning.LightningModule):
    def __init__(self, model, data, batch_size):
        super().__init__()
        self.model, self.data, self.batch_size = model, data, batch_size

    def training_step(self, batch, index):
        return F.cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return parts.adamw(self.parameters())

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=self.batch_size, shuffle=True)


quiet = dict(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
if sys.argv[1] == "profile":
    profiler = SimpleProfiler()
    trainer = lightning.Trainer(max_epochs=4, profiler=profiler, **quiet)
    trainer.fit(Module(parts.mlp(), parts.Waiting(), 16))
    sums = {name: sum(spans) for name, spans in profiler.recorded_durations.items()}
    waiting = sum(seconds for name, seconds in sums.items() if "train_dataloader_next" in name)
    print(json.dumps({"waiting": waiting / sums["run_training_epoch"]}))
else:
    trainer = lightning.Trainer(max_epochs=1, **quiet)
    size = Tuner(trainer).scale_batch_size(Module(parts.cnn(), parts.image_set(), 32), init_val=32, max_trials=4)
    print(json.dumps({"batch_size": size}))
"""

WORDS = {
    "dataloader_bound": "waits for the loader",
    "cpu_bound_preprocessing": "its samples cost the CPU too much",
    "no_mixed_precision": "no mixed precision",
    "no_torch_compile": "not compiled",
}


class Answer(NamedTuple):
    """What one command said and cost. `last` is its last line when it failed."""

    out: str
    err: str
    wall_s: float
    cpu_s: float
    failed: bool

    @property
    def last(self) -> str:
        """The last line that says something."""
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


class Reading(NamedTuple):
    """An answer in our words. `speedup` is middle, low and high; only the middle where a tool gives no range."""

    verdict: str
    change: str = "–"
    speedup: tuple[float, ...] = ()


class Row(NamedTuple):
    """One line of the table."""

    program: str
    tool: str
    wall_s: float
    cpu_s: float
    reading: Reading


class Tool(NamedTuple):
    """One command, and how to read what it prints."""

    program: str
    name: str
    words: list[str]
    read: Callable[[str], Reading]


def adopt_orphans() -> None:
    """Make what a tool leaves behind our own child, so that its CPU time is counted too (Linux)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def reap(patience_s: float = 5.0) -> None:
    """End and bury everything that is left below us."""
    left = psutil.Process().children(recursive=True)
    _, alive = psutil.wait_procs(left, timeout=patience_s)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    with suppress(ChildProcessError):
        while os.waitpid(-1, 0):
            pass


def spent() -> float:
    """CPU seconds of all children that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def asked(words: list[str], *, folder: Path, limit_s: float) -> Answer:
    """Run a command to its end or its limit, and everything it started with it."""
    before, began = spent(), time.perf_counter()
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=err, start_new_session=True)
        late = False
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        wall_s = time.perf_counter() - began
        reap()
        out.seek(0)
        err.seek(0)
        said = err.read() + (f"\nstopped after {limit_s:.0f} s" if late else "")
        return Answer(out.read(), said, wall_s, spent() - before, failed=late or child.returncode != 0)


def install(folder: Path) -> dict[str, str]:
    """Fill the virtual environment; what could not be installed, with its last line."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    wanted = {"torch": [TORCH], **{name: [package, TORCH] for name, package in RIVALS.items()}, "netdyno": [str(ROOT)]}
    missing = {}
    for name, packages in wanted.items():
        print(f"installing {name}", flush=True)
        answer = asked([*pip, *packages], folder=folder, limit_s=INSTALL_S)
        if answer.failed:
            missing[name] = answer.last
    return missing


def versions(folder: Path) -> dict[str, str]:
    """What is installed of what we compare."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "have = {d.metadata['Name']: d.version for d in m.distributions()}\n"
        "print(json.dumps({n: have[n] for n in sys.argv[1:] if n in have}))"
    )
    words = [str(folder / "bin" / "python"), "-c", code, "torch", *RIVALS, "netdyno"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def write_programs(folder: Path) -> None:
    """The two programs, in each form that a tool asks for."""
    sleeping = PLAIN.format(model="mlp", data="Waiting", batch=16, epochs=40)
    traced = (
        PLAIN.format(model="mlp", data="Waiting", batch=16, epochs=8)
        .replace("import parts\n", "import parts\nimport traceml_ai\n")
        .replace("    torch.manual_seed(0)\n", "    traceml_ai.init()\n    torch.manual_seed(0)\n")
        .replace(
            "            loss = advance",
            "            with traceml_ai.trace_step(model):\n                loss = advance",
        )
    )
    for name, text in {
        "parts.py": PARTS,
        "work.py": WORK,
        "sleeping.py": sleeping,
        "sleeping_traced.py": traced,
        "cnn.py": PLAIN.format(model="cnn", data="image_set", batch=32, epochs=20),
        "autotuned.py": AUTOTUNED.replace("BUDGET", str(BUDGET_S)),
        "weighed.py": WEIGHED,
        "epochs.py": EPOCHS_OF_WORKERS,
        "lightly.py": LIGHTNING,
    }.items():
        (folder / name).write_text(text.lstrip())


def findings(said: str) -> Reading:
    """train-doctor profile: its ranked findings."""
    ids = [finding["id"] for finding in json.loads(said)["findings"]]
    return Reading("; ".join(WORDS.get(name, name.replace("_", " ")) for name in ids) or "nothing found")


def fixed(said: str) -> Reading:
    """train-doctor fix: what it proved, or what it tried."""
    found = json.loads(said)
    tried = found.get("candidates") or []
    if not found.get("proven"):
        titles = ", ".join(candidate["title"] for candidate in tried) or "nothing that it can change by itself"
        return Reading(f"no proven win; tried {titles}")
    kept = next(candidate for candidate in tried if candidate.get("decision") == "keep")
    ratio = kept["ratio"]
    return Reading(
        f"kept 1 of {len(tried)} tried", found["proven"]["describe"], (ratio["point"], ratio["low"], ratio["high"])
    )


def carded(said: str) -> Reading:
    """traceml: the verdict and its reason on the summary card."""
    lines = [line.strip("| ").split("  ")[0] for line in said.splitlines()]
    verdict = next(line.removeprefix("Verdict: ") for line in lines if line.startswith("Verdict: "))
    why = next(line.removeprefix("Why: ") for line in lines if line.startswith("Why: "))
    return Reading(f"{verdict.lower()}: {why.rstrip('.')}")


def autotuned(said: str) -> Reading:
    """pytorch-autotune: the fastest trial."""
    report = json.loads(said)
    trials = report["trials"]
    done = [trial for trial in trials if trial["status"] == "ok"]
    won = next((trial for trial in done if trial["config"] == report["winner"]), None)
    if won is None:
        return Reading(f"{len(done)} of {len(trials)} trials done, no winner")
    change = ", ".join(f"{key}={value}" for key, value in won["config"].items() if value)
    return Reading(f"{len(done)} of {len(trials)} trials done in its budget", change, (won["speedup"],))


def profiled(said: str) -> Reading:
    """Lightning's simple profiler: one line of its table."""
    share = json.loads(said.splitlines()[-1])["waiting"]
    return Reading(f"no verdict; its table has {share:.0%} of the epoch in fetching the next batch")


def scaled(said: str) -> Reading:
    """Lightning's batch size tuner."""
    size = json.loads(said.splitlines()[-1])["batch_size"]
    return Reading("looks for what fits, not for what is faster", f"batch size 32 to {size} (another training)")


def diagnosed(said: str) -> Reading:
    """netdyno doctor: its first finding."""
    first = json.loads(said)[0]
    return Reading(f"{first['rule']}: {first['finding']['says']}" if first["finding"] else first["rule"])


def label(change: dict[str, Any]) -> str:
    """`loader-workers(workers=8)`."""
    inside = ", ".join(f"{key}={value}" for key, value in change.get("settings", {}).items())
    return f"{change['id']}({inside})" if inside else change["id"]


def tuned(said: str) -> Reading:
    """netdyno tune: what is kept, the credit of each, and the total with its range."""
    record = json.loads(said)
    trials, credit = record.get("trials", []), record.get("attribution")
    undecided = sum(verdict["decision"] == "undecided" for verdict in record.get("verdicts", []))
    says = f"{len(trials)} trials, {undecided} undecided"
    if not credit:
        return Reading(f"{says}; nothing kept" if not record.get("recipe") else f"{says}; not attributed")
    before = credit["baseline_s"]["middle"]
    shares = [f"{label(share['change'])} {share['gain']['middle'] / before:+.0%}" for share in credit["shares"]]
    told = sum(term["distinguishable"] for term in credit.get("interactions", []))
    if len(shares) > 1:
        says += f", {told} interaction{'' if told == 1 else 's'} told from noise"
    total = credit["speedup"]
    return Reading(says, "; ".join(shares), (total["middle"], total["low"], total["high"]))


def weighed(said: str) -> Reading:
    """Our own weighing of what the wall-clock tuner won."""
    found = json.loads(said.splitlines()[-1])
    ratios = "; ".join(f"{name} {ratio:.2f}×" for name, ratio in found["ratios"].items())
    return Reading(f"time on a core, in turns: plain {found['plain_ms']:.0f} ms a step", ratios)


def counted(said: str) -> Reading:
    """Our own count of what workers are worth over whole epochs."""
    found = json.loads(said.splitlines()[-1])
    ratios = "; ".join(f"{name} {ratio:.2f}×" for name, ratio in found["ratios"].items())
    return Reading(f"wall time of whole epochs, in turns: plain {found['plain_ms']:.0f} ms a step", ratios)


def tools(home: Path) -> list[Tool]:
    """Every command of the session, in order."""
    at = lambda name: str(home / "bin" / name)
    python, netdyno = at("python"), [at("python"), "-m", "netdyno"]
    tune = [*netdyno, "tune", "--json", "--progress", "none", "--store", "store", "--budget", f"{BUDGET_S}s"]
    doctor = [*netdyno, "doctor", "--json", "--progress", "none", "--store", "store", "--budget", "60s"]
    three = "loader-workers,cache-samples,tensor-slicing"
    fix = [at("train-doctor"), "fix", "--json", "--quiet", "--no-card", "--", python]
    return [
        Tool("sleeping", "netdyno doctor", [*doctor, "work.py:SLEEPING"], diagnosed),
        Tool("sleeping", "traceml-ai run", [at("traceml"), "run", "sleeping_traced.py"], carded),
        Tool("sleeping", "train-doctor profile", [at("train-doctor"), "profile", "--json", "--", python, "sleeping.py"], findings),
        Tool("sleeping", "lightning simple profiler", [python, "lightly.py", "profile"], profiled),
        Tool("sleeping", "netdyno tune, loader-workers only", [*tune, "--only", "loader-workers", "work.py:SLEEPING"], tuned),
        Tool("sleeping", "train-doctor fix", [*fix, "sleeping.py"], fixed),
        Tool("sleeping", "netdyno tune, three changes", [*tune, "--only", three, "work.py:SLEEPING"], tuned),
        Tool("sleeping", "our stopwatch, whole epochs", [python, "epochs.py"], counted),
        Tool("cnn", "pytorch-autotune", [python, "autotuned.py"], autotuned),
        Tool("cnn", "pytorch-autotune, device=cpu", [python, "autotuned.py", "cpu"], autotuned),
        Tool("cnn", "our weighing of its winner", [python, "weighed.py"], weighed),
        Tool("cnn", "netdyno tune, unaided", [*tune, "work.py:CNN"], tuned),
        Tool("cnn", "lightning batch size tuner", [python, "lightly.py", "tune"], scaled),
        Tool("cnn", "train-doctor fix", [*fix, "cnn.py"], fixed),
    ]  # fmt: skip


def row(tool: Tool, missing: dict[str, str], folder: Path) -> Row:
    """Run one tool and read it; what fails is said in its own last line."""
    absent = next((said for name, said in missing.items() if tool.name.startswith(name)), None)
    if absent is not None:
        return Row(tool.program, tool.name, 0.0, 0.0, Reading(f"not installed: {absent}"))
    answer = asked(tool.words, folder=folder, limit_s=TOOL_S)
    try:
        reading = tool.read(answer.out)
    except (LookupError, ValueError, StopIteration):  # what it printed is not what its version prints when it works
        reading = Reading(f"failed: {answer.last}")
    return Row(tool.program, tool.name, answer.wall_s, answer.cpu_s, reading)


def session(home: Path, missing: dict[str, str], keep: Path, only: str = "") -> None:
    """All tools one after another; the rows are kept after each. With `only`, those rows of an earlier session anew."""
    adopt_orphans()
    kept: dict[str, Any] = json.loads(keep.read_text()) if only else {"about": circumstances(home), "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        write_programs(Path(folder))
        for tool in tools(home):
            if only not in f"{tool.program}: {tool.name}":
                continue
            done = row(tool, missing, Path(folder))
            print(*done, sep="  ", flush=True)
            rows = {tuple(old[:2]): old for old in kept["rows"]} | {done[:2]: done}
            kept["rows"] = [rows[tool[:2]] for tool in tools(home) if tool[:2] in rows]
            if only:
                kept["about"].setdefault("apart", []).append(f"{tool.name} ({tool.program})")
            else:
                kept["about"]["load_end"] = os.getloadavg()[0]
            keep.write_text(json.dumps(kept))


def circumstances(home: Path) -> dict[str, Any]:
    """Where and with what a session runs."""
    return {
        "versions": versions(home),
        "load": os.getloadavg()[0],
        "cores": len(os.sched_getaffinity(0)),
        "threads": os.environ.get("OMP_NUM_THREADS", "not set"),
        "python": platform.python_version(),
    }


def shown(speedup: list[float]) -> tuple[str, str]:
    """The claim, and how wide its range is."""
    if not speedup:
        return "–", "–"
    if len(speedup) == 1:
        return f"{speedup[0]:.2f}×", "no range"
    middle, low, high = speedup
    return f"{middle:.2f}× ({low:.2f} to {high:.2f})", f"{(high - low) / middle:.0%}"


def table(rows: list[list[Any]], program: str) -> list[str]:
    """The rows of one program as Markdown."""
    lines = [
        "| tool | wall, s | CPU, s | what it says | the change it found | speed-up it claims | range, of the claim |",
        "| --- | ---: | ---: | --- | --- | --- | --- |",
    ]
    for of, tool, wall_s, cpu_s, (verdict, change, speedup) in rows:
        if of == program:
            claim, width = shown(speedup)
            lines.append(f"| {tool} | {wall_s:.0f} | {cpu_s:.0f} | {verdict} | {change} | {claim} | {width} |")
    return lines


def render(kept: dict[str, Any], words: str) -> str:
    """The page."""
    about = kept["about"]
    named = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    apart = f" Run apart from that session: {', '.join(about['apart'])}." if "apart" in about else ""
    return "\n".join(
        [
            "# Beside the rivals",
            "",
            (
                f"`python benchmarks/rivals.py`, one session: {about['cores']} core of a shared machine without a GPU, "
                f"OMP_NUM_THREADS {about['threads']}, load average {about['load']:.1f} at the start and {about['load_end']:.1f} "
                f"at the end, Python {about['python']}; {named}. Every tool has its own defaults; those that take a budget "
                f"get {BUDGET_S} s. CPU time is that of all processes of a tool, start-up and imports included.{apart}"
            ),
            "",
            "## A loader that sleeps",
            "",
            (
                "2 ms of sleep per sample, batch 16, `num_workers=0`, a small MLP. The right answer: the loader's samples wait "
                "(they are not computed), and more workers than cores pay."
            ),
            "",
            *table(kept["rows"], "sleeping"),
            "",
            "## A ResNet-like CNN",
            "",
            "Eight blocks of width 16 to 128 on generated 32×32 images, batch 32, float32.",
            "",
            *table(kept["rows"], "cnn"),
            "",
            words.strip(),
            "",
        ]
    )


def remarks() -> str:
    """What a person wrote about the last tables; it outlives the next run, and has to be read again then."""
    text = RESULT.read_text() if RESULT.exists() else ""
    _, mark, rest = text.partition("## What falls short")
    return mark + rest


def main() -> None:
    """Install, run, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(tempfile.gettempdir()) / "netdyno-rivals")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="run the rows with this text in them again: `cnn: netdyno`"
    )
    parser.add_argument("--render", action="store_true", help="write the table again, run nothing")
    options = parser.parse_args()
    home = options.venv.resolve()
    if home.is_relative_to(ROOT):
        parser.error("the virtual environment belongs outside the repository")
    keep = home / "rows.json"
    if not options.render:
        session(home, install(home), keep, options.only)
    RESULT.write_text(render(json.loads(keep.read_text()), remarks()))
    print(RESULT.read_text())


if __name__ == "__main__":
    sys.exit(main())
