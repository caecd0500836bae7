"""Compares numbers: features with labels, training's features with evaluation's, rows with their neighbours."""

import math
from typing import Any

from ._samples_draws import single_samples
from ._samples_rows import LoaderBook, Rows

# Rows that are compared with each other; a hundred differences in a thousand are seen all the same.
PAIRED = 1500
# Of fewer rows nothing is said about their distribution.
LEAST = 40
NEIGHBOURS = 10


def tables(early: list[Rows], fresh: list[Rows]) -> tuple[Any, Any, Any, Any]:
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


def ranges(x: Any) -> dict[str, Any]:
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
    told["bits"] = sum(_entropy(x[:2000, column]) for column in range(x.shape[1]))
    told |= _lattice(x)
    return told


def _entropy(values: Any) -> float:
    _, counts = values.unique(return_counts=True)
    shares = counts.double() / len(values)
    return float(-(shares * shares.log2()).sum())


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


def drift(x: Any, held: Any) -> dict[str, Any]:
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
        "drifted_share": min(1.0, float(far.double().sum() / max(1, int((moves | held_moves).sum())))),
    }  # fmt: skip
    both = moves & held_moves
    if int(both.sum()) >= 1:
        ratios = (held_stds[both] / stds[both]).log()
        told["scale_ratio"] = math.exp(float(ratios.median()))
        told["scale_spread"] = float((ratios - ratios.median()).abs().median())
        own, other = _standard(means[both], stds[both]), _standard(held_means[both], held_stds[both])
        told["standardised"] = "training" if own and not other else "evaluation" if other and not own else ""
    beyond = gaps > chance
    if 2 <= int(beyond.sum()) <= 3:
        told |= _swapped(x, held, gaps, [int(f) for f in beyond.nonzero().flatten()], chance)
    return told


def _standard(means: Any, stds: Any) -> bool:
    """Whether features (or all of them together) have mean 0 and spread 1."""
    each = float(means.abs().median()) < 0.2 and abs(float(stds.median()) - 1) < 0.25
    return each and float(means.abs().max()) < 1.0


# Rounding to half precision, or a mean that was computed anew, moves values by as much; no rule is about that.
ROUNDING, OF_SPREAD = 2.0**-9, 0.01


def _gaps(x: Any, held: Any) -> Any:
    """How far the distribution functions of each feature lie apart, where values may be off by a rounding."""
    import torch

    a, b = x.T.contiguous().sort(1).values, held.T.contiguous().sort(1).values
    both = torch.cat([a, b], 1)
    off = (ROUNDING * both.abs().amax(1) + OF_SPREAD * both.std(1))[:, None]

    def ahead(one: Any, other: Any) -> Any:
        """By how much one function is above the other a rounding further on: most at the one's own steps."""
        own = torch.arange(1, one.shape[1] + 1, dtype=torch.float64) / one.shape[1]
        return (own - torch.searchsorted(other, one + off, right=True) / other.shape[1]).amax(1)

    return torch.maximum(ahead(a, b), ahead(b, a)).clamp(min=0)


def _swapped(x: Any, held: Any, gaps: Any, far: list[int], chance: float) -> dict[str, Any]:
    for i in far:
        for j in far:
            if i < j:
                after = float(_gaps(x[:, [i, j]], held[:, [j, i]]).max())
                before = float(min(gaps[i], gaps[j]))
                # Exchanged columns fit as well as any others do; two that drifted by themselves don't.
                if after < 0.6 * before and after < chance:
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


def alone(x: Any, y: Any, held_x: Any, held_y: Any, task: dict[str, Any]) -> dict[str, Any]:
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


def neighbours(x: Any, y: Any, held_x: Any, held_y: Any, task: dict[str, Any]) -> dict[str, Any]:
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


def conflicts(early: list[Rows], task: dict[str, Any]) -> dict[str, Any]:
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


def shifted(
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
