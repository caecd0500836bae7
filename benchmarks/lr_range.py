"""Whether a suggested learning rate trains as well as the best of a fine grid, on the built-in workloads, beside two other finders.

    python benchmarks/lr_range.py [--root /tmp/lr-range] [--only tiny digits] [--markdown docs/results/lr-range.md]

Runs are short (`UPDATES`), and each is kept in a file of `--root` as soon as it is made: what was cut short goes on where it was.

A grid is first one rate a decade from 1e-5 to 1, then four a decade for a decade to both sides of the best. The grid and the race of our suggestion
have seeds of their own; what counts are fresh ones, on which the grid's best, the hand-written rate and every suggestion train once more. The best
of a dozen rates is lucky on the seeds that chose it; on fresh ones it is compared without that luck.
"""

import argparse
import contextlib
import io
import json
import math
import sys
import warnings
from pathlib import Path
from statistics import fmean

import torch
from torch import nn

from netdyno.knobs._optimizers import built
from netdyno.learning.range_test import first_rate, range_test
from netdyno.learning.rate_race import proven
from netdyno.learning.run import Session, setup_of, train
from netdyno.records.study import Run
from netdyno.records.trial import Change
from netdyno.stats.spread import t_interval
from netdyno.targets.subject import to_device
from netdyno.targets.workload import load

# Cheap workloads first; `sleepy` waits most of its time. The dearest are cut to what a core does in a few seconds.
UPDATES = {
    "tiny": 200, "recommender": 120, "python_bound": 120, "syncing": 300, "digits": 100, "decoder": 40, "matmul": 30, "lstm": 150,
    "deep_activations": 60, "transformer": 60, "resnet": 60, "sleepy": 120, "copybound": 40,
}  # fmt: skip
COARSE = tuple(10.0**power for power in range(-5, 1))
GRID_SEEDS, RACE_SEEDS, MORE_SEEDS, FRESH_SEEDS = (1, 2), (11, 12), (13, 14, 15), (101, 102, 103, 104, 105)
FINDERS = ("curve alone", "curve and race", "Lightning lr_find", "torch-lr-finder")
# A workload learns something when the best of the grid beats the worst by more than this share of its score.
LEARNS = 0.03


class Kept:
    """Results by name, written at once."""

    def __init__(self, file):
        self.file = file
        self.known = json.loads(file.read_text()) if file.exists() else {}

    def get(self, name, make):
        if name not in self.known:
            self.known[name] = make()
            self.file.write_text(json.dumps(self.known))
        return self.known[name]


class Subject:
    """One workload, and its runs by rate and seed."""

    def __init__(self, name, root):
        self.name = name
        self.setup = setup_of(load(f"garage:{name}"), updates=UPDATES[name])
        self.base = first_rate(built(self.setup))
        self.kept = Kept(root / f"{name}-{UPDATES[name]}.json")

    def reached(self, rate, seed):
        """(score, loss) of a run; None where it failed."""
        rate = float(f"{rate:.3g}")

        def make():
            run = train(
                self.setup, seed=seed, recipe=(self.change(rate),), stage="optim", knob="learning-rate", evaluations=1
            )
            print(f"  {self.name} {rate:.3g} seed {seed}: {run.score} {run.failed or ''}", file=sys.stderr, flush=True)
            return [run.score, run.loss]

        return self.kept.get(f"{rate:.3g} {seed}", make)

    def change(self, rate):
        return Change(id="learning-rate", settings={"factor": rate / self.base})

    def trained(self, recipe, seed):
        """The same in the form that a race asks for."""
        score, loss = self.reached(recipe[0].settings["factor"] * self.base, seed)
        return Run(
            stage="optim", knob="learning-rate", recipe=recipe, seed=seed, updates=self.setup.updates, batch_size=1, score=score,
            loss=loss,
        )  # fmt: skip

    def best(self, rates, seeds):
        def key(rate):
            found = [self.reached(rate, seed) for seed in seeds]
            if any(score is None for score, _ in found):
                return (-math.inf, -math.inf)
            return fmean(score for score, _ in found), -fmean(loss for _, loss in found)

        return max(rates, key=key), key

    def grid(self):
        """Its best rate, and the share by which the best beats the worst."""
        coarse, _ = self.best(COARSE, GRID_SEEDS)
        rates = {*COARSE, *(coarse * 10 ** (step / 4) for step in range(-4, 5))}
        best, key = self.best(sorted(rates), GRID_SEEDS)
        scores = [key(rate)[0] for rate in rates if math.isfinite(key(rate)[0])]
        return best, (max(scores) - min(scores)) / max(abs(max(scores)), 1e-9)


def ours(subject):
    test = range_test(subject.setup, seeds=RACE_SEEDS)
    return test.suggestion.middle if test.suggestion else None


def raced(subject):
    found = proven(
        subject.setup, range_test(subject.setup, seeds=RACE_SEEDS), seeds=RACE_SEEDS, more=MORE_SEEDS, also=(subject.base,),
        trained=subject.trained,
    )  # fmt: skip
    return found.rate if found else None


class Whole(nn.Module):
    """A model that takes a batch whole, as finders hand it on."""

    def __init__(self, setup, model):
        super().__init__()
        self.model, self.setup = model, setup

    def forward(self, batch):
        return self.setup.forward(self.model, batch)


def torch_lr_finder(subject):
    from torch_lr_finder import LRFinder, TrainDataLoaderIter

    class Iterated(TrainDataLoaderIter):
        def inputs_labels_from_batch(self, batch):
            return batch, batch

    session, setup = Session.begin(subject.setup, seed=RACE_SEEDS[0]), subject.setup
    finder = LRFinder(Whole(setup, session.model), session.optimizer, setup.loss)
    finder.range_test(Iterated(loader(session)), start_lr=1e-7, end_lr=10, num_iter=100)
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    answer = finder.plot(suggest_lr=True, ax=plt.subplots()[1])
    return float(answer[1]) if isinstance(answer, tuple) else None


def lightning(subject):
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.tuner import Tuner

    session, setup = Session.begin(subject.setup, seed=RACE_SEEDS[0]), subject.setup
    place = to_device(session.device)

    class Module(LightningModule):
        def __init__(self):
            super().__init__()
            self.whole, self.lr = Whole(setup, session.model), subject.base

        def training_step(self, batch, _):
            return setup.loss(self.whole(place(batch)), batch)

        def configure_optimizers(self):
            for group in session.optimizer.param_groups:
                group["lr"] = self.lr
            return session.optimizer

    trainer = Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=subject.kept.file.parent,
    )  # fmt: skip
    found = Tuner(trainer).lr_find(
        Module(), train_dataloaders=loader(session), min_lr=1e-7, max_lr=10, num_training=100
    )
    rate = found.suggestion()
    return float(rate) if rate else None


def loader(session):
    """Batches as long as a finder asks for them."""

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(session.feed.epochs())

        def __len__(self):
            return 10_000

    return torch.utils.data.DataLoader(Endless(), batch_size=None)


def suggested(subject, make):
    """What a finder says; None where it says nothing, or breaks, aloud."""
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return make(subject)
    except Exception as error:
        print(f"  {subject.name}: {make.__name__} breaks: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return None


MAKERS = dict(zip(FINDERS, (ours, raced, lightning, torch_lr_finder), strict=True))


def shortfalls(subject, rate, best):
    """By how much a rate stays behind the grid's best, as a share of it, on each fresh seed. A run that fails has all to lose."""
    found = []
    for seed in FRESH_SEEDS:
        (score, _), (reference, _) = subject.reached(rate, seed), subject.reached(best, seed)
        if reference is None:
            continue
        # A score that is minus a loss is the better the nearer it is to 0, and is measured by the best loss all the same.
        found.append(1.0 if score is None else (reference - score) / max(abs(reference), 1e-9))
    return found


def judged(name, root):
    """What the table says of a workload."""
    subject = Subject(name, root)
    suggestions = {
        finder: subject.kept.get(f"suggestion of {finder}", lambda make=make: [suggested(subject, make)])[0]
        for finder, make in MAKERS.items()
    }
    best, spread = subject.grid()
    rates = {"as written": subject.base, **suggestions}
    short = {who: shortfalls(subject, rate, best) if rate else None for who, rate in rates.items()}
    return {"best": best, "spread": spread, "rates": rates, "short": short}


def within(short):
    """Whether a suggestion stays within one per cent of the best of the grid: "yes", "no", or "?" where seeds scatter by more than that."""
    found = t_interval([100 * each for each in short], 0.95, unbounded=math.inf)
    return found, "yes" if found.high <= 1.0 else "no" if found.low > 1.0 else "?"


def cell(rate, short):
    if rate is None:
        return "no suggestion"
    if not short:
        return f"{rate:.2g}"
    found, answer = within(short)
    return f"{rate:.2g}: {found.middle:+.1f} % ({found.low:+.1f} to {found.high:+.1f}) {answer}"


def table(rows):
    """Markdown."""
    columns = ("as written", *FINDERS)
    lines = [
        f"| workload | updates | best of the grid | {' | '.join(columns)} |",
        "| --- " * (3 + len(columns)) + "|",
    ]
    for name, row in rows.items():
        if row["spread"] < LEARNS:
            lines.append(f"| {name} | {UPDATES[name]} | learns nothing in so few updates" + " |" * (len(columns) + 1))
            continue
        cells = " | ".join(cell(row["rates"][who], row["short"][who]) for who in columns)
        lines.append(f"| {name} | {UPDATES[name]} | {row['best']:.2g} | {cells} |")
    return "\n".join(lines)


def counts(rows):
    """How many suggestions train to within one per cent of the best of the grid, a workload that learns nothing left out."""
    learned = [row for row in rows.values() if row["spread"] >= LEARNS]
    lines = ["| | within 1 % | cannot be told | further behind | no suggestion |", "| --- | --- | --- | --- | --- |"]
    for who in ("as written", *FINDERS):
        answers = [within(row["short"][who])[1] if row["short"][who] else "none" for row in learned]
        lines.append(f"| {who} | {' | '.join(str(answers.count(each)) for each in ('yes', '?', 'no', 'none'))} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path("/tmp/lr-range"))
    parser.add_argument("--only", nargs="+", choices=tuple(UPDATES), default=tuple(UPDATES))
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    options.root.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name in options.only:
        rows[name] = judged(name, options.root)
        print(table({name: rows[name]}), flush=True)
    page = f"{table(rows)}\n\n{counts(rows)}\n"
    print(page)
    if options.markdown:
        options.markdown.write_text(page)


if __name__ == "__main__":
    main()
