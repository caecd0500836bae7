"""Compares rows: training with evaluation, one batch with the others, one pass over a loader with the next."""

import math
from collections import Counter
from typing import Any

from ._samples_apart import groups, windows
from ._samples_draws import place, seeded_alike, single_samples
from ._samples_relations import LEAST, alone, conflicts, drift, neighbours, ranges, shifted, tables
from ._samples_rows import Book, LoaderBook, Rows
from ._samples_slices import weakest

# An evaluation's call of which nearly all rows are training rows reads the training set again.
AGAIN = 0.9
# A batch whose largest number is so many times that of the median batch is no batch like the others.
OUTSIDE = 30.0
# Where more rows than this are far out it is how the numbers are distributed.
FEW = 0.02
# An id at an end of rows that fills more than this share of them is padding: a start or end mark fills less.
PADDED = 0.05


def look(book: Book, loaders: dict[int, LoaderBook], lines: dict[Any, Any], updates: int) -> dict[str, Any] | None:
    """Everything that rules ask, from the rows that were read."""
    train, held = _sides(book)
    if not train:
        return None
    early = [rows for rows in train if not rows.late]
    told: dict[str, Any] = {
        "updates": updates,
        "train_rows": sum(len(rows.prints) for rows in early),
        "floating": train[0].floating,
        "features": train[0].width,
        "joint": any(rows.joint for rows in train),
        "where": lines.get(train[0].site),
        "from_loader": train[0].loader is not None,
        "loss_name": train[0].loss_name,
        "weighted": any(rows.weighted for rows in train),
    }
    fresh, overlapping = _fresh(early, held)
    told |= _counts(early, fresh)
    told["eval_where"] = lines.get(fresh[-1].site) if fresh else None
    told["eval_round"] = max((book.longest.get(rows.site, 0) for rows in fresh), default=None)
    task = _task(train)
    told |= task
    told |= _losses(train, fresh, task)
    told |= _scores(train, fresh, task, updates)
    told |= _overlap(early, fresh, overlapping, task)
    told |= _slices(fresh, task)
    told |= _bad(train, fresh, loaders)
    told |= _spikes(early)
    told |= _pads(early)
    told |= _padding(early, fresh)
    told |= _batches(early, task)
    x, y, held_x, held_y = tables(early, fresh)
    told["looked"] = 0 if x is None else len(x)
    if x is not None and told["floating"]:
        told |= ranges(x)
        told |= alone(x, y, held_x, held_y, task)
        told |= neighbours(x, y, held_x, held_y, task)
        if held_x is not None:
            told |= _least_drift(x, held_x, fresh)
            told |= groups(x, y, held_x, held_y, task["task"])
            told |= windows(x, held_x)
    told |= conflicts(early, task)
    told |= shifted(told, loaders, early, task)
    told["loaders"] = [
        _loader(number, one, early, book, loaders) for number, one in loaders.items() if _trains(number, early)
    ]
    return {name: _plain(value) for name, value in told.items()}


def _least_drift(x: Any, held_x: Any, fresh: list[Rows]) -> dict[str, Any]:
    """The drift of that evaluation set that is most like training: others come from elsewhere by design."""
    groups: dict[Any, list[Rows]] = {}
    for rows in fresh:
        if rows.x is not None:
            key = rows.loader if rows.loader is not None else (rows.site, int(rows.prints[0]))
            groups.setdefault(key, []).append(rows)
    tables_of = [tables(own, own)[0] for own in list(groups.values())[:12]] if len(groups) > 1 else []
    found = [drift(x, table) for table in tables_of if table is not None] or [drift(x, held_x)]
    return min(found, key=lambda told: float(told["drifted_share"]))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _sides(book: Book) -> tuple[list[Rows], list[Rows]]:
    """Training's and evaluation's calls of the module that most of the training rows went into, of one width."""
    kinds: Counter[Any] = Counter()
    for rows in book.calls:
        if rows.role == "training":
            # Rows with a label of their own are what data are about.
            kinds[rows.module, rows.width] += len(rows.prints) * (
                3 if rows.labels is not None and not rows.joint else 1
            )
    if not kinds:
        return [], []
    module, width = kinds.most_common(1)[0][0]
    chosen = [rows for rows in book.calls if rows.role == "training" and rows.module == module and rows.width == width]
    floating = chosen[0].floating
    chosen = [rows for rows in chosen if rows.floating == floating]
    held = [r for r in book.calls if r.role == "evaluation" and r.width == width and r.floating == floating]
    return chosen, held


def _fresh(early: list[Rows], held: list[Rows]) -> tuple[list[Rows], list[Any]]:
    """Evaluation's calls without those that read training rows again, and which of their rows are training rows."""
    import torch

    if not early or not held:
        return held, [torch.zeros(len(rows.prints), dtype=torch.bool) for rows in held]
    known = torch.cat([rows.prints for rows in early]).unique()
    inside = [torch.isin(rows.prints, known) for rows in held]
    kept = [(rows, own) for rows, own in zip(held, inside, strict=True) if float(own.float().mean()) < AGAIN]
    return [rows for rows, _ in kept], [own for _, own in kept]


def _counts(early: list[Rows], fresh: list[Rows]) -> dict[str, Any]:
    import torch

    held = torch.cat([rows.prints for rows in fresh]).unique() if fresh else []
    return {
        "train_distinct": len(torch.cat([rows.prints for rows in early]).unique()) if early else 0,
        "eval_rows": sum(len(rows.prints) for rows in fresh),
        "eval_distinct": len(held),
        "eval_rounds": len({rows.update for rows in fresh}),
    }


def _task(train: list[Rows]) -> dict[str, Any]:
    """Whether rows carry a class or a number."""
    import torch

    labelled = [rows for rows in train if rows.labels is not None]
    outputs = next((rows.outputs for rows in labelled if rows.outputs is not None), None)
    none: dict[str, Any] = {"task": "", "classes": 0, "outputs": outputs}
    if not labelled or sum(len(rows.prints) for rows in labelled) < 0.5 * sum(len(rows.prints) for rows in train):
        return none
    labels = torch.cat([rows.labels for rows in labelled[:2000]])
    if all(rows.whole for rows in labelled):
        kinds = int(labels.max()) + 1 if bool((labels >= 0).all()) and float(labels.max()) < 100_000 else 0
        if 0 < kinds <= 1000 and len(labels) >= 2 * len(labels.unique()):
            return {"task": "classes", "classes": kinds, "outputs": outputs}
        return none
    fine = bool(labels.isfinite().all()) and float(labels.std()) > 0
    return {"task": "numbers" if fine else "", "classes": 0, "outputs": outputs}


def _losses(train: list[Rows], fresh: list[Rows], task: dict[str, Any]) -> dict[str, Any]:
    """Losses at the beginning and the end, and that of the best constant answer."""
    import torch

    losses = [rows.loss for rows in train if rows.loss is not None]
    fine = [loss for loss in losses if math.isfinite(loss)]
    told: dict[str, Any] = {"losses_lost": len(losses) - len(fine)}
    if len(fine) >= 4:
        some = max(2, min(20, len(fine) // 10))
        told["first_loss"] = sum(fine[:2]) / 2
        told["last_loss"] = sum(fine[-some:]) / some
    late = [
        rows.loss
        for rows in fresh
        if rows.loss is not None and rows.update == fresh[-1].update and math.isfinite(rows.loss)
    ]
    if late:
        told["eval_loss"] = sum(late) / len(late)
    name = train[0].loss_name
    labels = [rows.labels for rows in train if rows.labels is not None]
    if not labels or not task["task"] or train[0].joint or any(rows.weighted for rows in train):
        return told
    y = torch.cat(labels)
    if (
        name in ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
        and task["task"] == "classes"
    ):
        shares = torch.bincount(y.long()).double() / len(y)
        told["guess_loss"] = float(-(shares[shares > 0] * shares[shares > 0].log()).sum())
    elif name == "mse_loss" and len(y) > 1:
        told["guess_loss"] = float(y.var())
    elif name == "l1_loss":
        told["guess_loss"] = float((y - y.median()).abs().mean())
    return told


def _answers(calls: list[Rows], task: dict[str, Any]) -> tuple[Any, Any] | None:
    """What the model said and what it should have said, row by row."""
    import torch

    told = [rows for rows in calls if rows.predictions is not None and rows.labels is not None]
    if not told or not task["task"]:
        return None
    said, right = torch.cat([rows.predictions for rows in told]), torch.cat([rows.labels for rows in told])
    if task["task"] == "classes" and told[0].outputs == 1:
        if task["classes"] != 2:
            return None
        within = bool(((said >= 0) & (said <= 1)).all()) and told[0].loss_name != "binary_cross_entropy_with_logits"
        said = (said > (0.5 if within else 0.0)).double()
    return said, right


def _scores(train: list[Rows], fresh: list[Rows], task: dict[str, Any], updates: int) -> dict[str, Any]:
    """How right late answers are on either side, and how right a constant would be; the recall of each class."""
    last = max(rows.update for rows in train)
    late = [rows for rows in train if rows.update >= last - max(10, last // 10)]
    told: dict[str, Any] = {}
    end = fresh[-1].update if fresh else 0
    for name, calls in (("train", late), ("eval", [rows for rows in fresh if rows.update == end])):
        answers = _answers(calls, task)
        if answers is None or len(answers[0]) < 2:
            continue
        said, right = answers
        if task["task"] == "classes":
            counts = right.long().clamp(min=0).bincount(minlength=1)
            told[f"{name}_score"] = float((said == right).double().mean())
            told[f"{name}_guess"] = float(counts.max()) / len(right)
            told["recall" if name == "eval" else "train_recall"] = _recall(said, right, task["classes"])
        else:
            told[f"{name}_score"] = 1 - float(((said - right) ** 2).mean()) / max(
                float(right.var(unbiased=False)), 1e-30
            )
            told[f"{name}_guess"] = 0.0
    told |= _label_counts(train, fresh, task)
    return told


def _slices(fresh: list[Rows], task: dict[str, Any]) -> dict[str, Any]:
    """The group of rows of the last evaluation that is answered worst, next to what their classes let expect."""
    import torch

    kept = [rows for rows in fresh if rows.x is not None]
    if not kept or task["task"] != "classes" or not kept[0].floating:
        return {}
    told = [r for r in fresh if r.update == fresh[-1].update and r.predictions is not None and r.labels is not None]
    answers = _answers(told, task)
    if answers is None:
        return {}
    # The numbers of a row are kept in the first rounds only, where it has the same print.
    known, order = torch.cat([rows.prints for rows in kept]).sort()
    asked = torch.cat([rows.prints for rows in told])
    at = torch.searchsorted(known, asked).clamp(max=len(known) - 1)
    seen = known[at] == asked
    x = torch.cat([rows.x for rows in kept])[order[at[seen]]]
    said, right = answers
    return weakest(x, (said == right)[seen], right[seen].long())


def _recall(said: Any, right: Any, classes: int) -> list[float | None]:
    if classes > 64:
        return []
    found = []
    for kind in range(max(classes, int(right.max()) + 1)):
        of_it = right == kind
        found.append(float((said[of_it] == kind).double().mean()) if bool(of_it.any()) else None)
    return found


def _label_counts(train: list[Rows], fresh: list[Rows], task: dict[str, Any]) -> dict[str, Any]:
    import torch

    if task["task"] != "classes" or task["classes"] > 64:
        return {}
    told: dict[str, Any] = {}
    # Rows of one round only: all rounds read the same rows.
    end = fresh[-1].update if fresh else 0
    round_ = [rows for rows in fresh if rows.update == end]
    for name, calls in (("train_labels", [rows for rows in train if not rows.late]), ("eval_labels", round_)):
        labels = [rows.labels.long() for rows in calls if rows.labels is not None and rows.whole]
        if labels:
            y = torch.cat(labels)
            told[name] = y[y >= 0].bincount(minlength=task["classes"]).tolist()[:128]
    if "train_labels" in told and "eval_labels" in told and sum(told["eval_labels"]) >= LEAST:
        width = max(len(told["train_labels"]), len(told["eval_labels"]))
        shares = [
            [n / max(1, sum(side)) for n in side + [0] * (width - len(side))]
            for side in (told["train_labels"], told["eval_labels"])
        ]
        told["label_distance"] = sum(abs(a - b) for a, b in zip(*shares, strict=True)) / 2
    return told


def _overlap(early: list[Rows], fresh: list[Rows], overlapping: list[Any], task: dict[str, Any]) -> dict[str, Any]:
    """Rows of evaluation that training has too, and how often rows repeat within one pass over the training data."""
    import torch

    if not fresh:
        return {}
    known: dict[str, Any] = {"repeated": _repeated(early)}
    inside = torch.cat(overlapping)
    known["overlap"] = len(torch.cat([rows.prints for rows in fresh])[inside].unique())
    end = fresh[-1].update
    ends = [(rows, own) for rows, own in zip(fresh, overlapping, strict=True) if rows.update == end]
    told = [(rows, own) for rows, own in ends if rows.predictions is not None and rows.labels is not None]
    answers = _answers([rows for rows, _ in told], task)
    if answers is not None and task["task"] == "classes":
        right = (answers[0] == answers[1]).double()
        own = torch.cat([own for _, own in told])
        if bool(own.any()) and not bool(own.all()):
            known["overlap_score"], known["rest_score"] = float(right[own].mean()), float(right[~own].mean())
    return known


def _repeated(early: list[Rows]) -> float:
    """The share of rows of the first pass that came before in it; of calls outside of loaders, within single calls."""
    import torch

    first = [
        rows
        for rows in early
        if rows.loader is not None and rows.passes == early[0].passes and rows.loader == early[0].loader
    ]
    groups = [torch.cat([rows.prints for rows in first])] if first else [rows.prints for rows in early[:200]]
    total = sum(len(group) for group in groups)
    return 1 - sum(len(group.unique()) for group in groups) / max(1, total)


def _bad(train: list[Rows], fresh: list[Rows], loaders: dict[int, LoaderBook]) -> dict[str, Any]:
    """Rows with numbers that are none: where they stand in the data set, if a data set is known."""
    bad = [rows for rows in train if rows.bad is not None]
    told: dict[str, Any] = {
        "bad_eval_rows": len({int(rows.prints[i]) for rows in fresh if rows.bad is not None for i in rows.bad[0]})
    }
    if not bad:
        return told
    first = bad[0]
    assert first.bad is not None
    told["bad_rows"] = len({int(rows.prints[i]) for rows in bad if rows.bad is not None for i in rows.bad[0]})
    told["bad_times"] = sum(rows.bad[2] for rows in bad if rows.bad is not None)
    told["bad_first"], told["bad_feature"] = first.update, first.bad[1]
    book = loaders.get(first.loader) if first.loader is not None else None
    if book is not None and book.dataset is not None:
        told["bad_sample"] = next(
            (at for at, x, _ in single_samples(book.dataset, 20_000) if not bool(x.isfinite().all())), None
        )
    return told


def _spikes(early: list[Rows]) -> dict[str, Any]:
    """Batches with numbers far beyond those of the median row: how far, how often, in how many rounds, and their loss."""
    sized = [(rows, rows.largest) for rows in early if rows.largest is not None]
    if len(sized) < 12 or not early[0].floating:
        return {}
    # A few rows, shuffled, are in every other batch: it is the usual row that shows what is usual.
    each = [rows.x.abs().amax(1) for rows in early if rows.x is not None and rows.bad is None]
    usual, far = _usual_row(each) if each else (0.0, 0.0)
    usual = max(usual, sorted(size for _, size in sized)[len(sized) // 4], 1e-30)
    outside = [rows for rows, size in sized if size / usual >= OUTSIDE]
    if not outside or len(outside) > len(sized) // (2 if far <= FEW else 4):
        return {}
    ordinary = sorted(rows.loss for rows, size in sized if rows.loss is not None and size / usual < OUTSIDE)
    hit = [rows.loss for rows in outside if rows.loss is not None]
    prints = Counter(int(p) for rows in outside for p in rows.prints[:64])
    told: dict[str, Any] = {
        "spike_ratio": max(size for _, size in sized) / usual,
        "spike_times": len(outside),
        "spike_rounds": max(prints.values()),
        "spike_rows": len(outside[0].prints),
    }
    if ordinary and hit and ordinary[len(ordinary) // 2] > 0:
        told["spike_loss"] = min(max(hit) / ordinary[len(ordinary) // 2], 1e30)
    return told


def _usual_row(sizes: list[Any]) -> tuple[float, float]:
    """The largest number of the median row, and the share of rows that are far beyond it."""
    import torch

    whole = torch.cat(sizes)
    usual = max(float(whole.median()), 1e-30)
    return usual, float((whole >= OUTSIDE * usual).double().mean())


def _pads(early: list[Rows]) -> dict[str, Any]:
    padded = [rows.pads for rows in early if rows.pads is not None]
    if len(padded) < 4 or len({pad for pad, _ in padded}) > 1:
        return {}
    return {"pad_id": padded[0][0], "pad_share": sum(share for _, share in padded) / len(padded)}


def _padding(early: list[Rows], fresh: list[Rows]) -> dict[str, Any]:
    """At which end training's rows are padded, and evaluation's, with the id that fills an end of training's rows."""
    import torch

    sides = [[rows.x for rows in calls if rows.x is not None][:50] for calls in (early, fresh)]
    if not all(sides) or early[0].floating or early[0].width < 8:
        return {}
    train, held = (torch.cat(side) for side in sides)
    found = [
        (max(_ends(train, pad)), pad) for pad in {float(train[:, 0].mode().values), float(train[:, -1].mode().values)}
    ]
    share, pad = max(found)
    if share < PADDED:
        return {}
    return dict(
        zip(
            ("pad_front", "pad_back", "eval_pad_front", "eval_pad_back"),
            (*_ends(train, pad), *_ends(held, pad)),
            strict=True,
        )
    )


def _ends(x: Any, pad: float) -> tuple[float, float]:
    """The shares of positions that this id fills before the first other id, and behind the last one."""
    same = (x == pad).long()
    return tuple(float(side.cumprod(1).sum()) / x.numel() for side in (same, same.flip(1)))  # type: ignore[return-value]


def _batches(early: list[Rows], task: dict[str, Any]) -> dict[str, Any]:
    """How much of the labels' variety a single batch holds: near 1 when batches are mixed, near 0 when each holds one kind."""
    import torch

    batches = [rows.labels for rows in early if rows.labels is not None and not rows.joint and len(rows.labels) >= 8][
        :2000
    ]
    if len(batches) < 6 or not task["task"]:
        return {}
    whole = torch.cat(batches)
    if task["task"] == "numbers":
        within = sum(float(y.var()) * len(y) for y in batches) / len(whole)
        return {"batch_spread": within / max(float(whole.var()), 1e-30)}
    pooled = _entropy(whole)
    if pooled < 0.05:
        return {}
    return {"batch_spread": sum(_entropy(y) * len(y) for y in batches) / len(whole) / pooled}


def _entropy(y: Any) -> float:
    counts = y.long().clamp(min=0).bincount().double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum())


def _trains(number: int, early: list[Rows]) -> bool:
    return any(rows.loader == number for rows in early[:2000])


def _loader(
    number: int, book: LoaderBook, early: list[Rows], whole: Book, loaders: dict[int, LoaderBook]
) -> dict[str, Any]:
    """The passes over one loader."""
    import torch

    by_pass: dict[int, list[Any]] = {}
    for rows in early:
        if rows.loader == number and rows.group is not None:
            by_pass.setdefault(rows.passes, []).append(rows.prints)
    passes = [torch.cat(parts) for parts in by_pass.values()]
    if len(passes) > 2 and len(passes[-1]) < len(passes[-2]):
        passes.pop()  # where nobody listened any more, or the script was stopped: a part of a pass
    largest = max(passes, key=len)
    _, counts = largest.unique(return_counts=True)
    ever = len(torch.cat(passes).unique())
    first = passes[0]
    return {
        "where": place(book.line),
        "dataset": type(book.dataset).__name__ if book.dataset is not None else "",
        "sampler": book.sampler,
        "workers": book.workers,
        "iterable": book.known.made["iterable"],
        "dataset_rows": book.size,
        "batch_size": book.known.made["batch_size"],
        "passes": len(passes),
        "rows": len(largest),
        "distinct": len(counts),
        "ever": ever,
        "covered": _covered(book, ever, whole, loaders),
        "same_order": sum(len(one) == len(first) and bool((one == first).all()) for one in passes[1:]),
        "times_each": float(counts.median()),
        "shuffles": bool(book.known.made["shuffled"]),
        "one_batch": all(len(parts) <= 1 for parts in by_pass.values()),
        "seeded_alike": seeded_alike(book),
        "ranks": book.ranks,
        "epoch_set": book.epoch_set,
    }


def _covered(book: LoaderBook, ever: int, whole: Book, loaders: dict[int, LoaderBook]) -> float | None:
    """The share of the data set that any loader over it gave to the model, where a sample is the same row each time."""
    import torch

    if not book.size or ever > 1.02 * book.size:
        return None
    # Loaders over parts of one data set share it: `Subset` is an intention, a sampler over a part may be one.
    related = {number for number, other in loaders.items() if other.root == book.root}
    found = [rows.prints for rows in whole.calls if rows.loader in related and not rows.late]
    return min(1.0, len(torch.cat(found).unique()) / book.size) if found else None
