"""Does a staged search beat a sensible start, and Optuna alone on the same space with as many updates?

    python benchmarks/learn.py --root FOLDER [--only digits] [--minutes 5] [--seeds 5] [--write docs/results/learn.md]

Four small workloads, each with training, validation and test samples. The search and Optuna see training and validation;
Optuna alone (TPE with median pruning, one seed a trial, all knobs of all stages at once) gets exactly the updates that the search
spent, its ladder included. Then the start and both recipes train under fresh seeds and are judged on the test samples: differences
are paired by seed, with Student's 95 % interval. Whatever is done is kept in FOLDER and not done again.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from netdyno.knobs._base import catalogue, turned
from netdyno.learning import joint, search
from netdyno.learning.run import evaluated, feed_of, setup_of, train, trained
from netdyno.learning.trainings import Trainings
from netdyno.records.study import Run, Study, StudyPlan
from netdyno.records.trial import Change
from netdyno.stats.spread import t_interval
from netdyno.store.documents import Documents
from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

FRESH = 90_000  # seeds of the last comparison; no search uses them
LEVEL = 0.95
FASHION = Path("/usr/share/datasets/fashion-mnist")
MOST_TRIALS = 10_000  # updates end the search by Optuna, not trials

Part = tuple[torch.Tensor, torch.Tensor]
Splits = tuple[Part, Part, Part]


@cache
def digits() -> Splits:
    """Few scanned digits to learn from; the test scans were written by other people."""
    (images, labels), test = _data.digit_rows()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    few, held = order[:400], order[400:1000]
    return (pixels(images[few]), labels[few]), (pixels(images[held]), labels[held]), (pixels(test[0]), test[1])


@cache
def tailed() -> Splits:
    """The digits with class counts that fall from 80 to 4; validation and test are balanced, so that accuracy counts each class alike."""
    (images, labels), test = _data.digit_rows()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    mine, held = [], []
    for kind in range(10):
        there = order[labels[order] == kind]
        held.append(there[:40])
        mine.append(there[40 : 40 + round(80 * (4 / 80) ** (kind / 9))])
    few, kept = torch.cat(mine), torch.cat(held)
    least = min(int((test[1] == kind).sum()) for kind in range(10))
    judged = torch.cat([(test[1] == kind).nonzero()[:least, 0] for kind in range(10)])
    return (
        (pixels(images[few]), labels[few]),
        (pixels(images[kept]), labels[kept]),
        (pixels(test[0][judged]), test[1][judged]),
    )


def pixels(rows: torch.Tensor) -> torch.Tensor:
    """Rows of 64 numbers as images."""
    return rows.reshape(-1, 1, 8, 8)


@cache
def fashion() -> Splits:
    """Fashion-MNIST, halved in size, 1,500 pictures to learn from."""
    images, labels = _idx("train-images-idx3-ubyte", 16), _idx("train-labels-idx1-ubyte", 8)
    test, answers = _idx("t10k-images-idx3-ubyte", 16), _idx("t10k-labels-idx1-ubyte", 8)
    return (
        (halved(images[:1500 * 784]), torch.tensor(labels[:1500].astype(np.int64))),
        (halved(images[50_000 * 784 : 51_500 * 784]), torch.tensor(labels[50_000:51_500].astype(np.int64))),
        (halved(test[: 3000 * 784]), torch.tensor(answers[:3000].astype(np.int64))),
    )  # fmt: skip


def _idx(name: str, header: int) -> Any:
    import gzip

    found = next(FASHION.rglob(f"{name}*"), None)
    if found is None:
        raise FileNotFoundError(f"{name} is not below {FASHION}: install Debian's dataset-fashion-mnist")
    raw = gzip.decompress(found.read_bytes()) if found.suffix == ".gz" else found.read_bytes()
    return np.frombuffer(raw, dtype=np.uint8)[header:]


def halved(raw: Any) -> torch.Tensor:
    """Bytes of pictures of 28 x 28 as tensors of 14 x 14."""
    images = torch.tensor(raw.reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return nn.functional.avg_pool2d(images, 2)


LETTERS, LENGTH, TONGUES = 16, 24, 6


@cache
def text() -> Splits:
    """Lines of letters of six made-up tongues that differ in which letter follows which two; a tenth of the letters is slurred."""
    draw = np.random.default_rng(7)
    common = draw.dirichlet(np.full(LETTERS, 0.5), size=(LETTERS, LETTERS))
    own = draw.dirichlet(np.full(LETTERS, 0.5), size=(TONGUES, LETTERS, LETTERS))
    chances = (0.5 * common[None] + 0.5 * own).cumsum(-1)

    def lines(count: int) -> Part:
        kinds = draw.integers(0, TONGUES, count)
        letters = draw.integers(0, LETTERS, (count, LENGTH))
        for at in range(2, LENGTH):
            row = chances[kinds, letters[:, at - 2], letters[:, at - 1]]
            letters[:, at] = np.minimum((row < draw.random((count, 1))).sum(1), LETTERS - 1)
        slurred = draw.random((count, LENGTH)) < 0.1
        letters = np.where(slurred, draw.integers(0, LETTERS, (count, LENGTH)), letters)
        trigrams = (letters[:, :-2] * LETTERS + letters[:, 1:-1]) * LETTERS + letters[:, 2:]
        return torch.tensor(trigrams), torch.tensor(kinds)

    return lines(1500), lines(1000), lines(2000)


class Bag(nn.Module):
    """The mean of the vectors of a line's trigrams, and two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(LETTERS**3, 24, mode="mean")
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, TONGUES))

    def forward(self, trigrams: torch.Tensor) -> torch.Tensor:
        """(N, trigrams) -> (N, tongues)."""
        return self.head(self.vectors(trigrams))


def convolutional() -> nn.Module:
    """Two convolutions with batch norms and a linear layer, for pictures of 8 x 8 or 14 x 14."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 10),
    )  # fmt: skip


def adamw(parameters: Any) -> torch.optim.Optimizer:
    """What most scripts begin with."""
    return torch.optim.AdamW(parameters, lr=1e-3)


def quick(parameters: Any) -> torch.optim.Optimizer:
    """Embeddings see few of their rows in a batch: they begin with a higher rate."""
    return torch.optim.AdamW(parameters, lr=5e-3)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """The other thing that scripts begin with."""
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def declared(name: str, splits: Callable[[], Splits], model: Callable[[], nn.Module], **told: Any) -> Workload:
    """A start as a person would write it."""
    return Workload(
        name=name, model=model, train=lambda: splits()[0], val=lambda: splits()[1], threads=1, **told,
    )  # fmt: skip


DIGITS = declared("digits", digits, convolutional, optimizer=adamw, batch_size=32, steps=150)
FASHION_MNIST = declared("fashion", fashion, convolutional, optimizer=sgd, batch_size=64, steps=150)
TEXT = declared("text", text, Bag, optimizer=quick, batch_size=64, steps=250)
TAILED = declared("tailed", tailed, convolutional, optimizer=adamw, batch_size=32, steps=150)
SUBJECTS = {
    "digits": (DIGITS, digits),
    "fashion": (FASHION_MNIST, fashion),
    "text": (TEXT, text),
    "tailed": (TAILED, tailed),
}
NAMES = {"digits": "DIGITS", "fashion": "FASHION_MNIST", "text": "TEXT", "tailed": "TAILED"}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one workload."""

    name: str
    updates: int
    trials: int
    staged: tuple[Change, ...]
    alone: tuple[Change, ...]
    scores: dict[str, tuple[float, ...]]  # on the test samples, by side and fresh seed


def benched(name: str, folder: Path, *, minutes: float, seeds: int) -> Row:
    """One workload, from the search to the test samples."""
    kept = folder / "row.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Row)
    workload, splits = SUBJECTS[name]
    study = staged(name, folder, minutes=minutes)
    spent = sum(run.updates for run in study.runs)
    print(
        f"{name}: {len(study.runs)} runs of {spent} updates; kept {[change.label for change in study.recipe]}",
        flush=True,
    )
    alone, trials = by_optuna(workload, folder, updates=spent)
    print(f"{name}: Optuna alone, {trials} runs; best {[change.label for change in alone]}", flush=True)
    judge = replace(workload, val=lambda: splits()[2])
    sides = {"start": (), "staged": study.recipe, "alone": alone}
    scores = {
        side: tuple(final(workload, judge, recipe, FRESH + at) for at in range(seeds)) for side, recipe in sides.items()
    }
    row = Row(name=name, updates=spent, trials=trials, staged=study.recipe, alone=alone, scores=scores)
    kept.write_bytes(msgspec.json.encode(row))
    return row


def final(workload: Workload, judge: Workload, recipe: tuple[Change, ...], seed: int) -> float:
    """The score on the test samples; a run that fails has got nothing right.

    Training sees the validation samples, as early stopping reads them; `judge` has the test samples in their place.
    """
    setup = turned(recipe, setup_of(workload))
    run, model = trained(setup_of(workload), seed=seed, recipe=recipe, stage="deploy", knob="test")
    if model is None or run.failed is not None:
        return 0.0
    feed = feed_of(setup, judge.datasets()[0], seed=seed)
    return evaluated(judge, model, setup.forward, feed, torch.device("cpu")).score


def staged(name: str, folder: Path, *, minutes: float) -> Study:
    """The search, from where it was left. Its budget is in seconds of the processor: others work on this machine too."""
    shelf = Documents(folder)
    there = [line for line in shelf.list(Study) if line.broken is None]
    earlier = shelf.load(Study, there[0].id) if there else None
    if earlier is not None and earlier.finished:
        return earlier
    return search.learn(
        f"{Path(__file__).resolve()}:{NAMES[name]}", StudyPlan(budget_s=60 * minutes), store=shelf, resume=earlier,
        clock=time.process_time,
    )  # fmt: skip


def by_optuna(workload: Workload, folder: Path, *, updates: int) -> tuple[tuple[Change, ...], int]:
    """The best recipe that Optuna finds with that many updates on the whole space, and how many runs it made."""
    log = folder / "alone.jsonl"
    runs = [msgspec.json.decode(line, type=Run) for line in log.read_bytes().splitlines()] if log.exists() else []
    spent = sum(run.updates for run in runs)

    def counting(setup: Any, **told: Any) -> Run:
        nonlocal spent
        run = train(setup, **told)
        spent += run.updates
        return run

    def keep(run: Run) -> None:
        with log.open("ab") as file:
            file.write(msgspec.json.encode(run) + b"\n")

    # Updates are its time: the deadline is what the staged search spent.
    trainings = Trainings(
        setup=setup_of(workload),
        kept=keep,
        runs=runs,
        trainer=counting,
        clock=lambda: float(spent),
        deadline=float(updates),
    )
    found = joint.search(
        trainings, dict(catalogue()), (), stage="optim", seeds=(1,), name="alone", folder=folder, seed=0, trials=MOST_TRIALS,
    )  # fmt: skip
    return (found[0] if found else ()), len(trainings.runs)


def table(rows: list[Row]) -> str:
    """The rows as markdown."""
    lines = [
        "| workload | start | staged search | Optuna alone | staged − start | staged − Optuna | updates each |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        means = [f"{fmean(row.scores[side]):.4f}" for side in ("start", "staged", "alone")]
        told = [difference(row.scores["staged"], row.scores[side]) for side in ("start", "alone")]
        lines.append(f"| {row.name} | {' | '.join((*means, *told))} | {row.updates:,} |")
    recipes = [
        f"- {row.name}: staged {words(row.staged)}; Optuna alone ({row.trials} runs) {words(row.alone)}" for row in rows
    ]
    return "\n".join((*lines, "", "What each kept:", "", *recipes, ""))


def words(recipe: tuple[Change, ...]) -> str:
    """A recipe in a line."""
    return ", ".join(f"`{change.label}`" for change in recipe) or "nothing"


def difference(ours: tuple[float, ...], theirs: tuple[float, ...]) -> str:
    """Paired by seed, with its interval and what may be said."""
    found = t_interval([one - other for one, other in zip(ours, theirs, strict=True)], LEVEL)
    said = "better" if found.low > 0 else "worse" if found.high < 0 else "not distinguishable"
    return f"{found.middle:+.4f} ({found.low:+.4f} to {found.high:+.4f}), {said}"


def main() -> None:
    """The table, on the terminal and in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--only", action="append", choices=sorted(SUBJECTS))
    parser.add_argument("--minutes", type=float, default=4.0, help="of the processor, for the search of one workload")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    told = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in told.only or SUBJECTS:
        folder = told.root / name
        folder.mkdir(parents=True, exist_ok=True)
        rows.append(benched(name, folder, minutes=told.minutes, seeds=told.seeds))
        print(table(rows), flush=True)
    if told.write is not None:
        intro = " ".join((__doc__ or "").split("\n\n")[2].split())
        told.write.write_text(f"# Staged search, start, and Optuna alone\n\n{intro}\n\n{table(rows)}", encoding="utf-8")


if __name__ == "__main__":
    main()
