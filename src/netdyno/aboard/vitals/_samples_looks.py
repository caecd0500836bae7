"""Compares rows: training with evaluation, labels with inputs, one pass over a loader with the next."""

import math
from collections import Counter
from typing import Any

from ._samples_draws import place, seeded_alike, single_samples
from ._samples_rows import Book, LoaderBook, Rows

# Rows that are compared with each other; a hundred differences in a thousand are seen all the same.
PAIRED = 1500
# Of fewer rows nothing is said about their distribution.
LEAST = 40
NEIGHBOURS = 10
# An evaluation's call of which nearly all rows are training rows reads the training set again.
AGAIN = 0.9
# A batch whose largest number is so many times that of the median batch is no batch like the others.
OUTSIDE = 30.0


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
    task = _task(train)
    told |= task
    told |= _losses(train, fresh, task)
    told |= _scores(train, fresh, task, updates)
    told |= _overlap(early, fresh, overlapping, task)
    told |= _bad(train, fresh, loaders)
    told |= _spikes(early)
    told |= _pads(early)
    told |= _batches(early, task)
    x, y, held_x, held_y = _tables(early, fresh)
    told["looked"] = 0 if x is None else len(x)
    if x is not None and told["floating"]:
        told |= _ranges(x)
        told |= _alone(x, y, held_x, held_y, task)
        told |= _neighbours(x, y, held_x, held_y, task)
        if held_x is not None:
            told |= _drift(x, held_x)
    told |= _conflicts(early, task, told)
    told |= _shifted(told, loaders, early, task)
    told["loaders"] = [
        _loader(number, one, early, book, loaders) for number, one in loaders.items() if _trains(number, early)
    ]
    return {name: _plain(value) for name, value in told.items()}


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
    """Batches with numbers far beyond those of the median batch: how far, how often, in how many rounds, and their loss."""
    sized = [(rows, rows.largest) for rows in early if rows.largest is not None]
    if len(sized) < 12 or not early[0].floating:
        return {}
    usual = max(sorted(size for _, size in sized)[len(sized) // 2], 1e-30)
    outside = [rows for rows, size in sized if size / usual >= OUTSIDE]
    if not outside or len(outside) > len(sized) // 4:
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


def _pads(early: list[Rows]) -> dict[str, Any]:
    padded = [rows.pads for rows in early if rows.pads is not None]
    if len(padded) < 4 or len({pad for pad, _ in padded}) > 1:
        return {}
    return {"pad_id": padded[0][0], "pad_share": sum(share for _, share in padded) / len(padded)}


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


def _tables(early: list[Rows], fresh: list[Rows]) -> tuple[Any, Any, Any, Any]:
    """Distinct rows with numbers of either side, and their labels where all have one."""
    x, y = _table(early)
    held_x, held_y = _table(fresh)
    return x, y, held_x, held_y


def _table(calls: list[Rows]) -> tuple[Any, Any]:
    import torch

    kept = [rows for rows in calls if rows.x is not None]
    if not kept:
        return None, None
    x = torch.cat([rows.x for rows in kept])
    y = torch.cat([rows.labels for rows in kept]) if all(rows.labels is not None for rows in kept) else None
    p = torch.cat([rows.prints for rows in kept])
    # The first of each print.
    order = p.argsort(stable=True)
    new = torch.ones(len(p), dtype=torch.bool)
    new[1:] = p[order][1:] != p[order][:-1]
    first = order[new].sort().values
    first = first[x[first].isfinite().all(1)]
    if len(first) < LEAST:
        return None, None
    return x[first], None if y is None else y[first]


def _ranges(x: Any) -> dict[str, Any]:
    """The scale of the inputs, and of their features against each other."""
    x = x.double()
    means, stds = x.mean(0), x.std(0)
    moves = stds > 1e-9 * (means.abs() + 1e-30)
    told: dict[str, Any] = {
        "rms": float(x.square().mean().sqrt()),
        "low": float(x.min()),
        "high": float(x.max()),
        "constant_features": int((~moves).sum()),
        "integers": float((x == x.round()).double().mean()),
    }
    if bool(moves.any()):
        told["offset"] = float((means[moves].abs() / stds[moves]).median())
        told["spread_ratio"] = float(stds[moves].max() / stds[moves].min()) if int(moves.sum()) > 1 else 1.0
    told |= _lattice(x)
    return told


def _lattice(x: Any) -> dict[str, Any]:
    """Steps between the lowest and the highest value, when all values lie on equal steps, as those of images do."""
    flat = x[:500].reshape(-1)
    values = flat.unique()
    if not 4 <= len(values) <= 4096:
        return {}
    gaps = values.diff()
    reach = float(values[-1] - values[0])
    gap = float(gaps[gaps > 1e-6 * reach].min())
    steps = (values - values[0]) / gap
    if float((steps - steps.round()).abs().max()) > 0.05 or reach / gap > 4096:
        return {}
    levels = round(reach / gap)
    return {"levels": levels, "wrapped": _wrapped((flat - values[0]) / gap, steps.round(), levels)}


def _wrapped(flat: Any, steps: Any, levels: int) -> float | None:
    """The smaller share of values beside a gap in the middle of 256 levels, when both ends are taken: a number went below zero."""
    if levels != 255:
        return None
    gaps = steps.diff()
    at = int(gaps.argmax())
    below, above = at + 1, len(steps) - at - 1
    if float(gaps[at]) < 0.4 * levels or min(below, above) < 3:
        return None
    high = float((flat > float(steps[at]) + 0.5).double().mean())
    return min(high, 1 - high)


def _scaled(x: Any) -> tuple[Any, Any, Any]:
    means, stds = x.mean(0), x.std(0)
    moves = stds > 1e-7 * (means.abs() + 1e-30)
    return means, stds, moves


def _drift(x: Any, held: Any) -> dict[str, Any]:
    """How far each feature's values differ between the two sides, how they scale, and whether two features changed places."""
    x, held = x[:3000].double(), held[:3000].double()
    (means, stds, moves), (held_means, held_stds, held_moves) = _scaled(x), _scaled(held)
    gaps = _gaps(x, held)
    chance = 2.3 * math.sqrt((len(x) + len(held)) / (len(x) * len(held)))
    far = gaps > max(0.2, chance)
    worst = gaps.argsort(descending=True)[:6].tolist()
    told: dict[str, Any] = {
        "drifted": [
            {"feature": f, "distance": float(gaps[f]), "train_mean": float(means[f]), "train_std": float(stds[f]),
             "eval_mean": float(held_means[f]), "eval_std": float(held_stds[f])}
            for f in worst if bool(far[f])
        ],
        "drifted_share": float(far.double().sum() / max(1, int((moves | held_moves).sum()))),
    }  # fmt: skip
    both = moves & held_moves
    if int(both.sum()) >= 1:
        ratios = (held_stds[both] / stds[both]).log()
        told["scale_ratio"] = math.exp(float(ratios.median()))
        told["scale_spread"] = float((ratios - ratios.median()).abs().median())
        own, other = _standard(means[both], stds[both]), _standard(held_means[both], held_stds[both])
        told["standardised"] = "training" if own and not other else "evaluation" if other and not own else ""
    if 2 <= int(far.sum()) <= 3:
        told |= _swapped(x, held, gaps, [int(f) for f in far.nonzero().flatten()], chance)
    return told


def _standard(means: Any, stds: Any) -> bool:
    """Whether features (or all of them together) have mean 0 and spread 1."""
    each = float(means.abs().median()) < 0.2 and abs(float(stds.median()) - 1) < 0.25
    return each and float(means.abs().max()) < 1.0


def _gaps(x: Any, held: Any) -> Any:
    import torch

    both = torch.cat([x, held])
    values, order = both.sort(0)
    own = (order < len(x)).double()
    distance = (own.cumsum(0) / len(x) - (1 - own).cumsum(0) / len(held)).abs()
    # Between equal values the two functions are not told apart.
    last = torch.ones_like(values, dtype=torch.bool)
    last[:-1] = values[1:] != values[:-1]
    return (distance * last).max(0).values


def _swapped(x: Any, held: Any, gaps: Any, far: list[int], chance: float) -> dict[str, Any]:
    for i in far:
        for j in far:
            if i < j:
                after = float(_gaps(x[:, [i, j]], held[:, [j, i]]).max())
                before = float(min(gaps[i], gaps[j]))
                if after < max(chance, 0.5 * before) and before > 0.25:
                    return {"swapped": [i, j], "swap_before": before, "swap_after": after}
    return {}


def _explained(x: Any, y: Any, task: str) -> Any:
    """What each feature explains of the target by itself: the share of its variance that lies between classes, or r²."""
    import torch

    x = x.double()
    total = x.var(0, unbiased=False)
    if task == "numbers":
        centred, target = x - x.mean(0), y - y.mean()
        r2 = (centred * target[:, None]).mean(0).square() / (total * target.square().mean()).clamp(min=1e-30)
        return torch.where(total > 1e-18, r2, torch.zeros_like(r2))
    between = torch.zeros_like(total)
    for kind in y.unique()[:64]:
        own = x[y == kind]
        between += len(own) / len(x) * (own.mean(0) - x.mean(0)).square()
    return torch.where(total > 1e-18, between / total.clamp(min=1e-30), torch.zeros_like(total))


def _alone(x: Any, y: Any, held_x: Any, held_y: Any, task: dict[str, Any]) -> dict[str, Any]:
    if y is None or not task["task"] or x.shape[1] < 3 or len(x) < 100:
        return {}
    found = _explained(x, y, task["task"])
    order = found.argsort(descending=True)
    best = int(order[0])
    told: dict[str, Any] = {"best_feature": best, "alone": float(found[best]), "second": float(found[order[1]])}
    if held_y is not None and len(held_x) >= LEAST:
        told["alone_eval"] = float(_explained(held_x, held_y, task["task"])[best])
    return told


def _nearest(x: Any, many: int) -> Any:
    """The nearest other rows of each row, features scaled alike."""
    import torch

    x = x.double()
    spread = x.std(0)
    x = (x - x.mean(0)) / torch.where(spread > 1e-9, spread, torch.ones_like(spread)).clamp(
        min=float(spread.median()) * 0.1
    )
    away = torch.cdist(x, x)
    away.fill_diagonal_(math.inf)
    return away.topk(many, largest=False).indices


def _agreement(nearest: Any, y: Any, task: str) -> float:
    """How often the nearest row has the same label; of numbers, the squared correlation with the mean of five."""
    if task == "classes":
        return float((y[nearest[:, 0]] == y).double().mean())
    guess = y[nearest[:, :5]].mean(1)
    a, b = guess - guess.mean(), y - y.mean()
    r = float((a * b).mean()) / max(math.sqrt(float(a.square().mean() * b.square().mean())), 1e-30)
    return r * abs(r)


def _neighbours(x: Any, y: Any, held_x: Any, held_y: Any, task: dict[str, Any]) -> dict[str, Any]:
    if y is None or not task["task"] or len(x) < 100 or x.shape[1] < 2:
        return {}
    x, y = _some(x), _some(y)
    nearest = _nearest(x, NEIGHBOURS)
    told: dict[str, Any] = {"neighbours": _agreement(nearest, y, task["task"]), "chance": 0.0}
    if held_y is not None and len(held_x) >= 100:
        held_x, held_y = _some(held_x), _some(held_y)
        held_nearest = _nearest(held_x, NEIGHBOURS)
        told["eval_neighbours"] = _agreement(held_nearest, held_y, task["task"])
    if task["task"] == "classes":
        shares = y.long().clamp(min=0).bincount().double() / len(y)
        told["chance"] = float(shares.square().sum())
        told["disputed"] = float(_disputed(nearest, y)[0].double().mean())
        if "eval_neighbours" in told:
            told["eval_disputed"] = float(_disputed(held_nearest, held_y)[0].double().mean())
    return told


def _some(rows: Any) -> Any:
    return rows[:: -(-len(rows) // PAIRED)]


def _disputed(nearest: Any, y: Any) -> tuple[Any, Any]:
    """Rows of whose neighbours at least seven in ten agree on another label, and that label."""
    votes = y[nearest]
    common = votes.mode(1).values
    agree = (votes == common[:, None]).double().mean(1)
    return (agree >= 0.7) & (common != y), common


def _conflicts(early: list[Rows], task: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """Distinct rows that came with more than one label; rows without variety within are no rows."""
    import torch

    labelled = [rows for rows in early if rows.labels is not None and not rows.joint]
    if not labelled or task["task"] != "classes":
        return {}
    p = torch.cat([rows.prints for rows in labelled])
    y = torch.cat([rows.labels for rows in labelled])
    pairs = torch.stack([p, y.long()], 1).unique(dim=0)[:, 0]
    _, counts = pairs.unique(return_counts=True)
    return {"conflicts": int((counts > 1).sum())}


def _shifted(
    told: dict[str, Any], loaders: dict[int, LoaderBook], early: list[Rows], task: dict[str, Any]
) -> dict[str, Any]:
    """Where neighbours do not share labels: would they if labels were moved by a few places, in the data set's own order?"""
    import torch

    if told.get("neighbours") is None or not _at_chance(told) or early[0].loader is None:
        return {}
    book = loaders.get(early[0].loader)
    if book is None or book.dataset is None:
        return {}
    samples = [(x, y) for _, x, y in single_samples(book.dataset, 1200) if y is not None]
    if len(samples) < 100:
        return {}
    x = torch.stack([x.flatten().float() for x, _ in samples])
    y = torch.tensor([label for _, label in samples], dtype=torch.float64)
    nearest = _nearest(x, NEIGHBOURS)
    found = {by: _agreement(nearest, y.roll(by), task["task"]) for by in (-3, -2, -1, 1, 2, 3)}
    best = max(found, key=found.__getitem__)
    return {"shift": -best, "shifted_neighbours": found[best]}


def _at_chance(told: dict[str, Any]) -> bool:
    n = max(1, told["looked"])
    return bool(told["neighbours"] < told["chance"] + 4 / math.sqrt(min(n, PAIRED)))


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

    if not book.root_size or book.size is None or ever > 1.02 * book.size:
        return None
    related = {number for number, other in loaders.items() if other.root == book.root}
    found = [rows.prints for rows in whole.calls if rows.loader in related and not rows.late]
    return min(1.0, len(torch.cat(found).unique()) / book.root_size) if found else None
