"""What is often said of losses and architectures, tried on scikit-learn's digits: every arm over the same seeds, at equal updates.

    python benchmarks/knob_claims.py [--seeds 10] [--only distillation] [--markdown docs/results/knob-claims.md]

Each line is the mean score over seeds, and the difference to the first line of its table, paired by seed, with Student's 95 % interval.
"told" means that the interval leaves out 0; with some twenty lines, one of them may do so by luck.
"""

import argparse
import math
from functools import cache
from pathlib import Path
from statistics import fmean

import torch
from torch import nn

from netdyno.knobs._base import written
from netdyno.knobs.batchnorm_momentum import BatchnormMomentum
from netdyno.knobs.class_weights import ClassWeights
from netdyno.knobs.direction_distillation import DirectionDistillation
from netdyno.knobs.distillation import Distillation
from netdyno.knobs.focal_loss import FocalLoss
from netdyno.knobs.initialisation import Initialisation
from netdyno.knobs.label_smoothing import LabelSmoothing
from netdyno.knobs.normalisation import Normalisation
from netdyno.knobs.residual import Residual
from netdyno.knobs.weighted_sampler import WeightedSampler
from netdyno.learning.run import setup_of, train, trained
from netdyno.records.study import Run
from netdyno.stats.spread import t_interval
from netdyno.targets.garage import _data
from netdyno.targets.workload import Workload

LEVEL = 0.95


def images(part):
    """The digits as images of 8 x 8 pixels."""
    rows, labels = part
    return rows.reshape(-1, 1, 8, 8), labels


def adam(parameters):
    """Adam takes each loss at its own scale: under plain SGD the weight of T² alone would decide."""
    return torch.optim.AdamW(parameters, lr=2e-3)


def convolutional(width):
    """Two convolutions and a hidden layer of 32, whatever the width: teacher and student have features of one shape."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(8 * width, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def few(count=300):
    """The first scans, so few that there is something to gain."""
    rows, labels = images(_data.train_rows())
    return rows[:count], labels[:count]


def pupils(model, teacher=None):
    """A student, or the teacher, on the same few scans."""
    return Workload(
        name="pupil",
        model=model,
        train=few,
        val=lambda: images(_data.val_rows()),
        optimizer=adam,
        batch_size=32,
        teacher=teacher,
    )


@cache
def a_teacher():
    """Eight times as wide, trained on the same scans for the same number of updates."""
    run, model = trained(
        setup_of(pupils(lambda: convolutional(32)), updates=400), seed=99, stage="reg", knob="teacher", evaluations=1
    )
    print(f"the teacher reaches {run.score:.3f}")
    return model


def tailed():
    """The digits with ever fewer of each: from 150 noughts down to 8 nines."""
    rows, labels = images(_data.train_rows())
    chosen = [torch.nonzero(labels == kind)[: round(150 * (8 / 150) ** (kind / 9)), 0] for kind in range(10)]
    at = torch.cat(chosen)
    return rows[at], labels[at]


def deep(blocks=16):
    """Many equal blocks: convolution, batch norm, ReLU."""
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()]
    for _ in range(blocks):
        layers += [nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))


def normed():
    """A batch norm over rows: as many values per channel as there are samples in the batch."""
    return nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))


def bare(layers=10):
    """Layers without any norm, which stand or fall with how their weights are drawn."""
    hidden = [part for _ in range(layers) for part in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(64, 10))


def accuracy(run: Run) -> float:
    """The share of all samples."""
    return run.score if run.score is not None else math.nan


def mean_recall(run: Run) -> float:
    """Every class counts alike."""
    return fmean(run.classes) if run.classes else math.nan


def rows(model, batch_size):
    """The digits as rows."""
    return Workload(
        name="rows", model=model, train=_data.train_rows, val=_data.val_rows, optimizer=adam, batch_size=batch_size
    )


CLAIMS = {
    "distillation": (
        "A small network beside a teacher eight times as wide, 300 scans, 1,600 updates each (ledger A-157, A-158)",
        lambda: pupils(lambda: convolutional(4), a_teacher), 1600, accuracy,
        {
            "alone": (), "label smoothing 0.1": (LabelSmoothing(0.1),),
            **{f"answers of the teacher, T = {t:g}": (Distillation(0.5, t),) for t in (1.0, 2.0, 4.0, 7.0, 10.0)},
            "directions of the teacher's gradients": (DirectionDistillation(1.0),),
        },
    ),
    "long tail": (
        "Ten classes from 150 scans down to 8, even validation, mean recall after 400 updates (ledger A-155)",
        lambda: Workload(
            name="tail", model=lambda: convolutional(8), train=tailed, val=lambda: images(_data.val_rows()), optimizer=adam,
            batch_size=32,
        ), 400, mean_recall,
        {
            "cross-entropy": (), "focal, gamma 2": (FocalLoss(2.0),), "focal, gamma 2, alpha by class": (FocalLoss(2.0, balanced=True),),
            "class weights, power 0.5": (ClassWeights(0.5),), "class weights, power 1": (ClassWeights(1.0),),
            "weighted sampler": (WeightedSampler(1.0),),
        },
    ),
    "residual": (
        "Sixteen equal blocks, 150 updates (ledger A-152)",
        lambda: Workload(
            name="deep", model=deep, train=lambda: images(_data.train_rows()), val=lambda: images(_data.val_rows()), optimizer=adam,
            batch_size=32,
        ), 150, accuracy,
        {
            "no shortcuts": (), "add, then ReLU (v1)": (Residual("v1"),), "pre-activation": (Residual("pre-activation"),),
            "add behind the ReLU": (Residual("after-relu"),),
        },
    ),
    "small batch": (
        "Batch norm over 4 rows, 600 updates (ledger A-153, A-164)",
        lambda: rows(normed, 4), 600, accuracy,
        {
            "batch norm, momentum 0.1": (), "momentum 0.03": (BatchnormMomentum(0.03),), "momentum 0.01": (BatchnormMomentum(0.01),),
            "group norm": (Normalisation("group"),), "layer norm": (Normalisation("layer"),),
        },
    ),
    "initialisation": (
        "Ten hidden layers without a norm, 300 updates (ledger A-150)",
        lambda: rows(bare, 32), 300, accuracy,
        {
            "as PyTorch draws": (), "He, fan in": (Initialisation("he"),), "Xavier": (Initialisation("xavier"),),
            "orthogonal": (Initialisation("orthogonal"),),
        },
    ),
}  # fmt: skip


def table(name: str, seeds: int) -> list[str]:
    """One claim as lines of Markdown."""
    says, workload, updates, score, arms = CLAIMS[name]
    setup = setup_of(workload(), updates=updates)
    lines = [
        f"## {name.capitalize()}",
        "",
        f"{says}; {seeds} seeds.",
        "",
        "| | score | difference to the first line | |",
        "| --- | --- | --- | --- |",
    ]
    control: list[float] = []
    for arm, knobs in arms.items():
        recipe = tuple(map(written, knobs))
        runs = [train(setup, seed=seed, recipe=recipe, stage="reg", knob=arm, evaluations=1) for seed in range(seeds)]
        failed = [run.failed for run in runs if run.failed is not None]
        if failed:
            lines.append(f"| {arm} | {len(failed)} of {seeds} runs failed: {failed[0]} | | |")
        else:
            scores = [score(run) for run in runs]
            lines.append(line(arm, scores, control))
            control = control or scores
        print(lines[-1], flush=True)
    return [*lines, ""]


def line(arm: str, scores: list[float], control: list[float]) -> str:
    """One arm, against the first."""
    if not control:
        return f"| {arm} | {fmean(scores):.3f} | | |"
    found = t_interval([a - b for a, b in zip(scores, control, strict=True)], LEVEL)
    told = "told" if not found.holds(0.0) else "not distinguishable"
    return f"| {arm} | {fmean(scores):.3f} | {found.middle:+.3f} [{found.low:+.3f}, {found.high:+.3f}] | {told} |"


def main() -> None:
    """All claims, one table each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", choices=CLAIMS, action="append")
    parser.add_argument("--markdown", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["# What is said of losses and architectures, tried", "", *(__doc__ or "").splitlines()[-2:], ""]
    for name in options.only or CLAIMS:
        print(name, flush=True)
        lines += table(name, options.seeds)
    if options.markdown is not None:
        options.markdown.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
