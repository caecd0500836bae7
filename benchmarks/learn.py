"""Does a staged search beat a sensible start, and Optuna alone on the same space with as many updates?

    python benchmarks/learn.py --root FOLDER [--only digits] [--runs 60 200] [--searches 5] [--write docs/results/learn.md]

Small workloads, each with training, validation and test samples. A budget is so many trainings of the start, counted in
updates: nothing here depends on how busy the machine is. The search and Optuna see training and validation; Optuna alone (TPE that draws
numbers together, median pruning, one seed a trial, all knobs of all stages at once, the start as its first trial) gets exactly the updates that
the search spent, its walks, its confirmations and its ladder included. Each pair of searches has seeds of its own. Then the start and both recipes
train under fresh seeds and are judged on the test samples. A search counts once, by the mean of its fresh seeds; differences are paired by
search, with Student's 95 % interval, so that the luck of a search is in it. Whatever is done is kept in FOLDER and not done again.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
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
    """What is kept of one pair of searches."""

    name: str
    runs: int  # the budget, in trainings of the start
    search: int
    updates: int
    trials: int
    staged: tuple[Change, ...]
    alone: tuple[Change, ...]
    scores: dict[str, tuple[float, ...]]  # on the test samples, by side and fresh seed


class Meter:
    """Trains, and counts updates: they are this bench's clock."""

    def __init__(self, spent: int = 0) -> None:
        self.spent = spent

    def train(self, setup: Any, **told: Any) -> Run:
        run = train(setup, **told)
        self.spent += run.updates
        return msgspec.structs.replace(run, seconds=float(run.updates))

    def clock(self) -> float:
        """Updates so far."""
        return float(self.spent)


def benched(name: str, folder: Path, *, runs: int, search: int, seeds: int) -> Row:
    """One workload under one budget, from the search to the test samples."""
    kept = folder / "row.json"
    if kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=Row)
    workload, splits = SUBJECTS[name]
    study = staged(name, folder, runs=runs, seed=search)
    spent = sum(run.updates for run in study.runs)
    alone, trials = by_optuna(workload, folder, updates=spent, seed=search)
    judge = replace(workload, val=lambda: splits()[2])
    sides = {"start": (), "staged": study.recipe, "alone": alone}
    fresh = [FRESH + 100 * search + at for at in range(seeds)]
    scores = {side: tuple(final(workload, judge, recipe, seed) for seed in fresh) for side, recipe in sides.items()}
    row = Row(
        name=name, runs=runs, search=search, updates=spent, trials=trials, staged=study.recipe, alone=alone, scores=scores
    )  # fmt: skip
    kept.write_bytes(msgspec.json.encode(row))
    means = {side: round(fmean(each), 4) for side, each in scores.items()}
    print(
        f"{name}, {runs} runs, search {search}: {spent} updates, {means}\n  {words(study.recipe)}\n  {words(alone)}",
        flush=True,
    )
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


def staged(name: str, folder: Path, *, runs: int, seed: int) -> Study:
    """The search, from where it was left."""
    shelf = Documents(folder)
    there = [line for line in shelf.list(Study) if line.broken is None]
    earlier = shelf.load(Study, there[0].id) if there else None
    if earlier is not None and earlier.finished:
        return earlier
    meter = Meter()
    plan = StudyPlan(
        budget_s=float(runs * SUBJECTS[name][0].steps), seed=seed, seeds=tuple(20 * seed + at for at in range(1, 6))
    )
    reference = f"{Path(__file__).resolve()}:{NAMES[name]}"
    return search.learn(
        reference, plan, store=shelf, resume=earlier, trainer=meter.train, clock=meter.clock
    )  # fmt: skip


def by_optuna(workload: Workload, folder: Path, *, updates: int, seed: int) -> tuple[tuple[Change, ...], int]:
    """The best recipe that Optuna finds with that many updates on the whole space, and how many runs it made."""
    log = folder / "alone.jsonl"
    runs = [msgspec.json.decode(line, type=Run) for line in log.read_bytes().splitlines()] if log.exists() else []
    meter = Meter(sum(run.updates for run in runs))

    def keep(run: Run) -> None:
        with log.open("ab") as file:
            file.write(msgspec.json.encode(run) + b"\n")

    # Updates are its time: the deadline is what the staged search spent.
    trainings = Trainings(
        setup=setup_of(workload), kept=keep, runs=runs, trainer=meter.train, clock=meter.clock, deadline=float(updates),
    )  # fmt: skip
    found = joint.search(
        trainings, dict(catalogue()), (), stage="optim", seeds=(20 * seed + 1,), name="alone", folder=folder, seed=seed,
        trials=MOST_TRIALS, first=((),),
    )  # fmt: skip
    return (found[0] if found else ()), len(trainings.runs)


def table(rows: list[Row]) -> str:
    """The rows as markdown, a line for each workload and budget."""
    lines = [
        "| workload | trainings | searches | start | staged search | Optuna alone | staged − start | staged − Optuna |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.name, row.runs), []).append(row)
    for (name, runs), mine in groups.items():
        lines.append(_line(name, runs, [[row] for row in mine]))
    for runs in sorted({row.runs for row in rows}):
        lines += _all_of([row for row in rows if row.runs == runs], runs)
    return "\n".join((*lines, ""))


def _line(name: str, runs: int, searches: Sequence[Sequence[Row]]) -> str:
    """A line in which a search counts once, by the mean over its workloads."""
    by_side = {
        side: [fmean(fmean(row.scores[side]) for row in rows) for rows in searches]
        for side in ("start", "staged", "alone")
    }
    means = [f"{fmean(each):.4f}" for each in by_side.values()]
    told = [difference(by_side["staged"], by_side[side]) for side in ("start", "alone")]
    return f"| {name} | {runs} | {len(searches)} | {' | '.join((*means, *told))} |"


def _all_of(rows: list[Row], runs: int) -> list[str]:
    """The mean over the workloads, search by search, where there are several."""
    names = {row.name for row in rows}
    of = {at: [row for row in rows if row.search == at] for at in sorted({row.search for row in rows})}
    whole = [mine for mine in of.values() if len(mine) == len(names)]
    return [_line(f"all {len(names)}", runs, whole)] if len(names) > 1 and whole else []


def words(recipe: tuple[Change, ...]) -> str:
    """A recipe in a line."""
    return ", ".join(f"`{change.label}`" for change in recipe) or "nothing"


def difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Paired by search, with its interval and what may be said."""
    apart = [one - other for one, other in zip(ours, theirs, strict=True)]
    if len(apart) < 2:
        return f"{fmean(apart):+.4f}"
    found = t_interval(apart, LEVEL)
    said = "better" if found.low > 0 else "worse" if found.high < 0 else "not distinguishable"
    return f"{found.middle:+.4f} ({found.low:+.4f} to {found.high:+.4f}), {said}"


def main() -> None:
    """The table, on the terminal and in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=sorted(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--runs", nargs="+", type=int, default=[60, 200], help="budgets, in trainings of the start")
    parser.add_argument("--searches", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5, help="fresh trainings of what each search found")
    parser.add_argument("--write", type=Path)
    told = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for at, runs, name in itertools.product(range(told.searches), told.runs, told.only):
        folder = told.root / f"{name}-{runs}-{at}"
        folder.mkdir(parents=True, exist_ok=True)
        rows.append(benched(name, folder, runs=runs, search=at, seeds=told.seeds))
    rows.sort(key=lambda row: (list(SUBJECTS).index(row.name), row.runs))
    print(table(rows), flush=True)
    if told.write is not None:
        intro = " ".join((__doc__ or "").split("\n\n")[2].split())
        told.write.write_text(f"# Staged search, start, and Optuna alone\n\n{intro}\n\n{table(rows)}", encoding="utf-8")


if __name__ == "__main__":
    main()
