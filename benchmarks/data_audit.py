"""`netdyno data` on data whose fault is known, and on the same data without it; beside cleanlab and deepchecks.

    taskset -c 0 env OMP_NUM_THREADS=1 python benchmarks/data_audit.py                    # two seeds
    python benchmarks/data_audit.py --seeds 5 --rivals /path/to/python                    # with cleanlab and deepchecks installed
    python benchmarks/data_audit.py --page docs/results/data-audit.md                     # the table from what was run

Every data fault of the fault bench that can be put into arrays is planted into every set it makes sense for: scikit-learn's digits,
iris, wine, breast cancer and diabetes, Fashion-MNIST, and generated tables, texts, series and colour pictures. A case that was run is
kept in the root folder, one JSON each; a run that is cut short goes on. Rivals get the same arrays in their own interpreter.
"""

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
FASHION = Path("/usr/share/datasets/fashion-mnist")
ROWS = 1200, 400  # at most, of the training and of the judged split


class Data(NamedTuple):
    """Two splits as arrays, before anything is planted. `texts` are lists."""

    name: str
    modality: str
    x: dict[str, Any]
    y: dict[str, Any]
    groups: dict[str, Any] | None = None
    times: dict[str, Any] | None = None
    task: str = "classes"

    def copy(self) -> "Data":
        return self._replace(
            x={name: list(x) if isinstance(x, list) else np.array(x, dtype=np.float64) for name, x in self.x.items()},
            y={name: np.array(y) for name, y in self.y.items()},
        )


class Fault(NamedTuple):
    """A fault: how it is planted, into what, and which audits name it; `cleanlab` and `deepchecks` what names it there."""

    id: str
    says: str
    plant: Callable[[Data, np.random.Generator], Data]
    fits: Callable[[Data], bool]
    named: tuple[str, ...]
    cleanlab: tuple[str, ...] = ()
    deepchecks: tuple[str, ...] = ()


# ---------------------------------------------------------------- the sets


def sets(seed: int) -> Iterator[Data]:
    """Every clean set, split by the seed."""
    from sklearn import datasets

    for name in ("iris", "wine", "breast_cancer"):
        held = getattr(datasets, f"load_{name}")()
        yield split(name, "table", held.data, held.target, seed)
    held = datasets.load_diabetes()
    yield split("diabetes", "table", held.data, held.target, seed)._replace(task="numbers")
    digits = datasets.load_digits()
    yield split("digits", "images", digits.images[:, None] / 16, digits.target, seed)
    if FASHION.is_dir():
        yield split("fashion", "images", *fashion(), seed)
    for modality in ("table", "text", "series", "images"):
        yield generated(modality, seed)


def split(name: str, modality: str, x: Any, y: Any, seed: int) -> Data:
    """Seven tenths to learn from, stratified where there are classes."""
    from sklearn.model_selection import train_test_split

    classes = y if len(np.unique(y)) < 30 else None
    train, val = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed, stratify=classes)
    train, val = train[: ROWS[0]], val[: ROWS[1]]
    return Data(name, modality, {"train": x[train], "val": x[val]}, {"train": y[train], "val": y[val]})


def fashion() -> tuple[Any, Any]:
    """The first 4,000 pictures of Fashion-MNIST, from 0 to 1."""
    with gzip.open(FASHION / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(16 + 784 * 4000), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(FASHION / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + 4000), np.uint8, offset=8)
    return images / 255, labels.astype(np.int64)


def generated(modality: str, seed: int) -> Data:
    """Healthy generated data of one kind."""
    from netdyno.audits._specimens import specimen

    view = specimen(modality, seed=seed, sizes=(600, 300), classes=4)
    x = {name: part.x for name, part in view.parts.items()}
    return Data(f"generated {modality}", modality, x, {name: part.y for name, part in view.parts.items()})


# ---------------------------------------------------------------- the faults


def nan_in_one(data: Data, chance: Any) -> Data:
    at = chance.integers(len(data.x["train"]))
    data.x["train"][at].flat[chance.integers(data.x["train"][at].size)] = np.nan
    return data


def logarithms_of_zero(data: Data, chance: Any) -> Data:
    rows = chance.choice(len(data.x["train"]), 5, replace=False)
    for row in rows:
        data.x["train"][row].flat[0] = -np.inf
    return data


def unscaled(data: Data, chance: Any) -> Data:
    return data._replace(x={name: x * 1000 for name, x in data.x.items()})


def twice_normalised(data: Data, chance: Any) -> Data:
    return data._replace(x={name: x / 255 for name, x in data.x.items()})


def train_scaled_alone(data: Data, chance: Any) -> Data:
    axes = 0 if data.modality == "table" else None
    mean, deviation = data.x["train"].mean(axes), data.x["train"].std(axes)
    data.x["train"] = (data.x["train"] - mean) / np.where(deviation > 0, deviation, 1)
    return data


def rolled_labels(data: Data, chance: Any) -> Data:
    return data._replace(y={name: np.roll(y, 1) for name, y in data.y.items()})


def noisy_labels(data: Data, chance: Any) -> Data:
    y = data.y["train"]
    rows = chance.choice(len(y), int(0.3 * len(y)), replace=False)
    kinds = np.unique(y)
    y[rows] = kinds[(np.searchsorted(kinds, y[rows]) + chance.integers(1, len(kinds), len(rows))) % len(kinds)]
    return data


def shifted_classes(data: Data, chance: Any) -> Data:
    return data._replace(y={name: y + 1 for name, y in data.y.items()})


def kept(data: Data, name: str, rows: Any) -> Data:
    x = data.x[name]
    data.x[name] = [x[row] for row in rows] if isinstance(x, list) else x[rows]
    data.y[name] = data.y[name][rows]
    return data


def class_missing(data: Data, chance: Any) -> Data:
    kind = chance.choice(np.unique(data.y["train"]))
    return kept(data, "train", np.flatnonzero(data.y["train"] != kind))


def imbalanced(data: Data, chance: Any) -> Data:
    """One class against another, thinned to a hundredth; both splits alike."""
    counts = np.bincount(data.y["train"])
    _common, few = np.argsort(-counts)[:2]
    for name in data.y:
        y = data.y[name]
        common = np.flatnonzero(y != few)
        rare = np.flatnonzero(y == few)[: max(2, len(common) // 100)]
        data = kept(data, name, chance.permutation(np.concatenate((common, rare))))
        data.y[name] = (data.y[name] == few).astype(np.int64)
    return data


def put(data: Data, to: str, rows: Any, value: Any) -> None:
    for row, one in zip(rows, value, strict=True):
        data.x[to][row] = one


def duplicated(data: Data, chance: Any) -> Data:
    """Three tenths of the judged samples are training samples."""
    many = int(0.3 * len(data.y["val"]))
    rows = chance.choice(len(data.y["train"]), many, replace=False)
    put(data, "val", range(many), [data.x["train"][row] for row in rows])
    data.y["val"][:many] = data.y["train"][rows]
    return data


def grouped(data: Data, chance: Any) -> Data:
    """Every training sample is one of four records of a subject, split by record."""
    rows = {"train": len(data.y["train"]), "val": len(data.y["val"])}
    ids = chance.permutation(np.arange(sum(rows.values())) // 4)
    return data._replace(groups={"train": ids[: rows["train"]], "val": ids[rows["train"] :]})


def shuffled_times(data: Data, chance: Any) -> Data:
    moments = chance.permutation(len(data.y["train"]) + len(data.y["val"])).astype(float)
    return data._replace(times={"train": moments[: len(data.y["train"])], "val": moments[len(data.y["train"]) :]})


def copied_target(data: Data, chance: Any) -> Data:
    for name, x in data.x.items():
        y = data.y[name].astype(float)
        noise = 0.001 * np.std(data.y["train"]) * chance.normal(size=len(y))
        data.x[name] = np.hstack((x, (2 * y + 1 + noise)[:, None]))
    return data


def scaled_together(data: Data, chance: Any) -> Data:
    both = np.concatenate(list(data.x.values()))
    mean, deviation = both.mean(0), both.std(0)
    return data._replace(x={name: (x - mean) / np.where(deviation > 0, deviation, 1) for name, x in data.x.items()})


def sorted_rows(data: Data, chance: Any) -> Data:
    return kept(data, "train", np.argsort(data.y["train"], kind="stable"))


def scrambled(data: Data, chance: Any) -> Data:
    return data._replace(x={name: x.transpose(0, 2, 3, 1).reshape(x.shape) for name, x in data.x.items()})


def wrapped(data: Data, chance: Any) -> Data:
    """Bytes less their mean, without room for a sign."""
    levels = {name: np.clip(x * 255, 0, 255).astype(np.uint8) for name, x in data.x.items()}
    mean = np.uint8(levels["train"].mean())
    return data._replace(x={name: x - mean for name, x in levels.items()})


def contradicted(data: Data, chance: Any) -> Data:
    """A tenth of the training samples are others once more, with another label."""
    count = len(data.y["train"])
    rows = chance.permutation(count)[: 2 * (count // 10)]
    to, of = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    kinds = np.unique(data.y["train"])
    put(data, "train", to, [data.x["train"][row] for row in of])
    data.y["train"][to] = kinds[(np.searchsorted(kinds, data.y["train"][of]) + 1) % len(kinds)]
    return data


def swapped(data: Data, chance: Any) -> Data:
    """The two judged columns whose middles are furthest apart, in spreads, change places."""
    x = data.x["train"]
    middle = x.mean(0)
    spread = x.std(0)
    apart = np.abs(middle[:, None] - middle[None]) / np.maximum(spread[:, None] + spread[None], 1e-9)
    one, other = np.unravel_index(apart.argmax(), apart.shape)
    data.x["val"][:, [one, other]] = data.x["val"][:, [other, one]]
    return data


def shifted(data: Data, chance: Any) -> Data:
    data.x["val"] = data.x["val"] * 3 + 1
    return data


def other_shares(data: Data, chance: Any) -> Data:
    kind = np.unique(data.y["val"])[0]
    own, rest = np.flatnonzero(data.y["val"] == kind), np.flatnonzero(data.y["val"] != kind)
    return kept(
        data, "val", chance.permutation(np.concatenate((own, chance.permutation(rest)[: max(5, len(own) // 4)])))
    )


def shortcut(data: Data, chance: Any) -> Data:
    """In training a corner pixel tells the class, in evaluation it says anything."""
    for name in data.x:
        y = data.y[name] if name == "train" else chance.permutation(data.y[name])
        data.x[name][:, :, 0, 0] = (y[:, None] + 0.5) / (np.max(data.y["train"]) + 1)
    return data


def twenty(data: Data, chance: Any) -> Data:
    return kept(data, "val", chance.permutation(len(data.y["val"]))[:20])


def any_numbers(data: Data) -> bool:
    return data.modality != "text"


def table(data: Data) -> bool:
    return data.modality == "table"


def images(data: Data) -> bool:
    return data.modality == "images"


def classes(data: Data) -> bool:
    return data.task == "classes"


def many_classes(data: Data) -> bool:
    return classes(data) and len(np.unique(data.y["train"])) > 2


def everything(data: Data) -> bool:
    return True


FAULTS = (
    Fault("D01", "NaN in one sample", nan_in_one, any_numbers, ("non-finite-values",), ("null",), ("PercentOfNulls", "MixedNulls")),
    Fault("D02", "infinity in five samples", logarithms_of_zero, any_numbers, ("non-finite-values",)),
    Fault("D03", "inputs times 1000", unscaled, lambda d: images(d) or d.modality == "series", ("value-range",)),
    Fault("D04", "divided by 255 twice", twice_normalised, images, ("value-range",)),
    Fault("D05", "training scaled, evaluation not", train_scaled_alone, lambda d: d.name not in {"diabetes", "generated series"} and any_numbers(d),
          ("split-scaling", "covariate-shift"), ("non_iid",), ("FeatureDrift", "MultivariateDrift")),
    Fault("D06", "labels moved by one row", rolled_labels, classes, ("misaligned-labels",), ("label",)),
    Fault("D07", "30 % of the training labels wrong", noisy_labels, classes, ("label-errors",), ("label",), ("ConflictingLabels",)),
    Fault("D08", "labels from 1 to K", shifted_classes, classes, ("shifted-classes",)),
    Fault("D10", "a class missing in training", class_missing, many_classes, ("missing-class",), (), ("NewLabelTrainTest",)),
    Fault("D11", "one class thinned to 1 %", imbalanced, lambda d: classes(d) and len(d.y["train"]) > 300, ("hidden-imbalance",), ("class_imbalance",), ("ClassImbalance",)),
    Fault("D12", "30 % of evaluation copied from training", duplicated, everything, ("leaked-duplicates",), ("near_duplicate",), ("TrainTestSamplesMix",)),
    Fault("D13", "records of one subject on both sides, subjects named", grouped, table, ("leaked-groups",), (), ("IndexTrainTestLeakage",)),
    Fault("D14", "evaluation from before the end of training, times named", shuffled_times, table, ("leaked-time",), (), ("DateTrainTestLeakageOverlap",)),
    Fault("D15", "the target in a column", copied_target, table, ("leaked-target",), (), ("FeatureLabelCorrelation",)),
    Fault("D16", "scaled with the statistics of both splits", scaled_together, table, ("early-statistics",)),
    Fault("D17", "sorted by class", sorted_rows, classes, ("sorted-rows",), ("non_iid",)),
    Fault("D22", "pixels viewed in another order", scrambled, lambda d: images(d) and d.x["train"].shape[1] == 3, ("scrambled-pixels",)),
    Fault("D25", "bytes that wrapped below zero", wrapped, images, ("value-range",)),
    Fault("D28", "10 % copied with another label", contradicted, classes, ("conflicting-labels",), ("label", "near_duplicate"), ("ConflictingLabels",)),
    Fault("D30", "two columns changed places in evaluation", swapped, lambda d: table(d) and d.name != "diabetes", ("swapped-columns",), ("non_iid",), ("FeatureDrift", "MultivariateDrift")),
    Fault("G07", "evaluation times 3 plus 1", shifted, any_numbers, ("covariate-shift", "split-scaling"), ("non_iid",), ("FeatureDrift", "MultivariateDrift")),
    Fault("G08", "other shares of classes in evaluation", other_shares, many_classes, ("label-shift",), (), ("LabelDrift",)),
    Fault("G09", "a pixel that tells the class in training", shortcut, images, ("shortcut-feature",), ("spurious_correlations",)),
    Fault("G15", "20 samples to judge on", twenty, lambda d: len(d.y["train"]) >= 400, ("tiny-validation",), (), ("DatasetsSizeComparison",)),
)  # fmt: skip
# Faults of the bench that are none of the arrays: they are in a program, and are the doctor's.
ELSEWHERE = "D09, D18 to D21, D23, D24, D26, D27, D29, G01 to G06, G10 to G14, G16"


# ---------------------------------------------------------------- running


class Case(NamedTuple):
    """One set with one fault, or none, under one seed."""

    fault: str
    data: str
    seed: int
    built: Data

    @property
    def key(self) -> str:
        return f"{self.fault}-{self.data.replace(' ', '_')}-{self.seed}"


def cases(seeds: int, only: set[str]) -> Iterator[Case]:
    """Every case, the clean ones first."""
    for seed in range(seeds):
        for data in sets(seed):
            if not only or "clean" in only:
                yield Case("clean", data.name, seed, data.copy())
            for fault in FAULTS:
                if fault.fits(data) and (not only or fault.id in only):
                    planted = fault.plant(data.copy(), np.random.default_rng(1000 * seed + 7))
                    yield Case(fault.id, data.name, seed, planted)


def view_of(data: Data) -> Any:
    """What `netdyno data` sees of such arrays."""
    from netdyno.audits._arrays import view_of as viewed
    from netdyno.audits._base import Part

    parts = {}
    for name, x in data.x.items():
        rows = np.arange(len(data.y[name]))
        groups, times = (each[name] if each else None for each in (data.groups, data.times))
        parts[name] = Part(name=name, x=x, y=data.y[name], indices=rows, total=len(rows), groups=groups, times=times)
    columns = tuple(f"column {at}" for at in range(data.x["train"].shape[1])) if data.modality == "table" else ()
    view = viewed(data.name, parts, seed=0, hint=data.modality, columns=columns, notes={"source": "arrays"})
    return replace(view, task=data.task) if data.task == "numbers" else view


def judge(case: Case) -> dict[str, Any]:
    """The outcomes of all audits on one case."""
    from netdyno.audits._walk import looked_at

    began = time.perf_counter()
    audit = looked_at(view_of(case.built), id=case.key)
    told = [
        (each.rule, each.state) for each in audit.outcomes if each.finding is not None and each.finding.stage != "note"
    ]
    failed = [(each.rule, each.reason) for each in audit.outcomes if each.state == "failed"]
    return {"told": told, "failed": failed, "seconds": time.perf_counter() - began}


def run(options: argparse.Namespace) -> None:
    """Every case that was not run yet."""
    root = Path(options.root)
    root.mkdir(parents=True, exist_ok=True)
    (root / "rivals").mkdir(exist_ok=True)
    for case in cases(options.seeds, set(options.only or ())):
        path = root / f"{case.key}.json"
        if not path.exists() or options.again:
            path.write_text(json.dumps(judge(case)))
        kept_for = root / "rivals" / f"{case.key}.npz"
        if options.rivals and not kept_for.exists():
            np.savez(kept_for, **_packed(case.built))
    for python in options.rivals or ():
        subprocess.run([python, str(HERE / "data_audit_rivals.py"), str(root / "rivals")], check=False)


def _packed(data: Data) -> dict[str, Any]:
    told = {f"x_{name}": np.array(x) for name, x in data.x.items()} | {f"y_{name}": y for name, y in data.y.items()}
    for kind, held in (("groups", data.groups), ("times", data.times)):
        told |= {f"{kind}_{name}": each for name, each in (held or {}).items()}
    return told | {"modality": np.array(data.modality), "task": np.array(data.task)}


# ---------------------------------------------------------------- the page


class Score(NamedTuple):
    """How often a fault was named, of how many cases; `first` when nothing stood above it. Of a rival `sure` counts what it did
    not say of the same set without the fault."""

    found: int
    cases: int
    first: int = 0
    sure: int = 0


def score(root: Path, fault: Fault) -> Score:
    """What `netdyno data` did on the cases of one fault."""
    read = [json.loads(path.read_text()) for path in sorted(root.glob(f"{fault.id}-*.json"))]
    hits = [[at for at, (rule, _) in enumerate(each["told"]) if rule in fault.named] for each in read]
    sure = sum(any(rule in fault.named and state == "found" for rule, state in each["told"]) for each in read)
    return Score(sum(map(bool, hits)), len(read), sum(bool(each) and each[0] == 0 for each in hits), sure)


def rival_score(root: Path, fault: Fault, rival: str) -> Score:
    """The same for a rival. Where it says of the clean set what it says of the faulty one, it has not told the two apart."""
    names = set(getattr(fault, rival))
    told = []
    for path in sorted((root / "rivals").glob(f"{fault.id}-*.json")):
        clean = path.with_name(path.name.replace(fault.id, "clean", 1))
        said, before = (_said(each, rival) for each in (path, clean))
        if said is not None and before is not None:
            told.append((bool(said & names), bool((said - before) & names)))
    return Score(sum(found for found, _ in told), len(told), 0, sum(told_apart for _, told_apart in told))


def _said(path: Path, rival: str) -> set[str] | None:
    told = json.loads(path.read_text()).get(rival) if path.exists() else None
    return None if told is None else set(told)


def interval(hits: int, looks: int) -> str:
    """A share with Wilson's interval."""
    if not looks:
        return "not run"
    z, part = 1.96, hits / looks
    middle = (part + z * z / (2 * looks)) / (1 + z * z / looks)
    half = z * np.sqrt(part * (1 - part) / looks + z * z / (4 * looks**2)) / (1 + z * z / looks)
    return f"{hits}/{looks} ({100 * max(0, middle - half):.0f} to {100 * min(1, middle + half):.0f} %)"


def page(root: Path) -> str:
    """The results as Markdown."""
    rivals = [name for name in ("cleanlab", "deepchecks") if any(_ran(root, name))]
    lines = [
        "# `netdyno data` on planted faults",
        "",
        "Made by `benchmarks/data_audit.py`. Each fault is planted into every set it makes sense for; named means that the audit of that",
        "fault speaks, sure or suspecting. *First* counts where nothing stood above it. Intervals are Wilson's, 95 %. A rival counts as",
        "having named a fault when one of its checks that could mean it fails; *beyond clean* when that check had passed on the same set",
        "without the fault. It gets the arrays as its documentation asks (`benchmarks/data_audit_rivals.py`), with default settings, and",
        "under the first seed; what it has no check for is missed in the last line. cleanlab names samples to look at, also in good data:",
        "it gives no verdict on a set, and *beyond clean* is the fairer column for it.",
        "",
        f"Faults {ELSEWHERE}",
        "are in programs and not in arrays: the doctor's own bench has them.",
        "",
        f"| fault | planted | named | sure | first |{''.join(f' {name} |' for name in rivals)}",
        f"| --- | --- | --- | --- | --- |{' --- |' * len(rivals)}",
    ]
    total = Score(0, 0)
    sums = {name: Score(0, 0) for name in rivals}
    for fault in FAULTS:
        own = score(root, fault)
        if not own.cases:
            continue
        total = Score(*(a + b for a, b in zip(total, own, strict=True)))
        cells = []
        for name in rivals:
            theirs = rival_score(root, fault, name)
            sums[name] = Score(*(a + b for a, b in zip(sums[name], theirs, strict=True)))
            cells.append(
                f"{interval(theirs.found, theirs.cases)}, {theirs.sure} beyond clean"
                if getattr(fault, name)
                else "no check"
            )
        lines.append(
            f"| {fault.id} | {fault.says} | {interval(own.found, own.cases)} | {own.sure} | {own.first} |{''.join(f' {cell} |' for cell in cells)}"
        )
    lines.append(
        f"| all | | **{interval(total.found, total.cases)}** | {total.sure} | {total.first} |"
        + "".join(f" {interval(each.found, each.cases)}, {each.sure} beyond clean |" for each in sums.values())
    )
    return "\n".join([*lines, "", *_clean(root, rivals), "", *_missed(root), ""])


def _ran(root: Path, rival: str) -> Iterator[bool]:
    for path in (root / "rivals").glob("*.json"):
        yield json.loads(path.read_text()).get(rival) is not None


def _clean(root: Path, rivals: Iterable[str]) -> Iterator[str]:
    read = {path.stem: json.loads(path.read_text()) for path in sorted(root.glob("clean-*.json"))}
    alarms = {name: [rule for rule, state in each["told"] if state == "found"] for name, each in read.items()}
    guesses = {name: [rule for rule, state in each["told"] if state != "found"] for name, each in read.items()}
    yield "## Clean sets"
    yield ""
    yield f"- netdyno: {sum(map(bool, alarms.values()))} of {len(read)} clean sets raised an alarm; {sum(map(bool, guesses.values()))} a suspicion."
    yield from (
        f"  - {name}: {', '.join(alarms[name] + guesses[name])}" for name in read if alarms[name] + guesses[name]
    )
    for rival in rivals:
        there = [json.loads(path.read_text()) for path in sorted((root / "rivals").glob("clean-*.json"))]
        told = [each[rival] for each in there if each.get(rival) is not None]
        names = sorted({name for each in told for name in each})
        failed = sum(
            1 for path in (root / "rivals").glob("*.json") if json.loads(path.read_text()).get(f"{rival}_failed")
        )
        yield (
            f"- {rival}: {sum(map(bool, told))} of {len(told)} clean sets failed one of its checks ({', '.join(names)}); "
            f"it raised an error on {failed} cases, which are not counted."
        )
    seconds = [each["seconds"] for each in read.values()]
    if seconds:
        yield f"- A look at a clean set took {np.median(seconds):.1f} s in the middle, {max(seconds):.1f} s at most, on one shared core."


def _missed(root: Path) -> Iterator[str]:
    yield "## Missed"
    yield ""
    for fault in FAULTS:
        for path in sorted(root.glob(f"{fault.id}-*.json")):
            told = json.loads(path.read_text())["told"]
            if not any(rule in fault.named for rule, _ in told):
                yield f"- {path.stem}: {', '.join(rule for rule, _ in told) or 'silence'}"


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default="data-audit", help="where cases are kept")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", action="append", help="a fault, or `clean`; repeat")
    parser.add_argument("--again", action="store_true", help="judge cases again that were judged before")
    parser.add_argument("--rivals", action="append", help="a Python that has cleanlab or deepchecks; repeat")
    parser.add_argument("--page", type=Path, help="write the results there, and run nothing")
    options = parser.parse_args()
    if options.page is None:
        run(options)
        print(page(Path(options.root)))
    else:
        options.page.write_text(page(Path(options.root)))


if __name__ == "__main__":
    sys.exit(main())
