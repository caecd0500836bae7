"""Records that a model is given on several lines: known again whatever scale and order their numbers come in."""

from typing import Any

from ..frames import Line

ROWS, BYTES = 256, 2 << 20
# The same record in another scale has the same standardised moments but for rounding; another record differs by far more.
SAME = 2e-3
FLOOR = 1e-9
# Columns that are compared for an exchange, how near they must come in standard deviations, and how many of them must.
WIDEST, SIMILAR, MOST_COLUMNS = 4096, 1e-3, 0.95


class Records:
    """What is remembered of the rows that one model was given on one line: copies, bounded in number and bytes."""

    def __init__(self, model: str, line: Line) -> None:
        self.model = model
        self.line = line
        self.at = -1
        self._clear()

    def _clear(self) -> None:
        self.count = self.bytes = 0
        self.given: list[Any] = []
        self.outputs: list[Any] = []

    def take(self, given: Any, output: Any, at: int) -> None:
        """Some rows of one call after `at` updates; answers of other weights are of no use any more."""
        if at != self.at:
            self.at = at
            self._clear()
        room = ROWS - self.count
        if room <= 0 or self.bytes >= BYTES or not output.dim() or output.shape[0] != given.shape[0]:
            return
        per_row = max(1, given.numel() // max(1, given.shape[0])) * given.element_size()
        room = min(room, (BYTES - self.bytes) // per_row)
        if room <= 0:
            return
        rows = given.detach()[:room].clone()
        self.given.append(rows)
        self.outputs.append(output.detach()[:room].clone())
        self.count += rows.shape[0]
        self.bytes += rows.shape[0] * per_row

    def standard(self) -> tuple[Any, Any, Any]:
        """The rows without their mean and scale, and these."""
        import torch

        rows = torch.cat([one.reshape(one.shape[0], -1).double().cpu() for one in self.given])
        mean, std = rows.mean(1), rows.std(1, correction=0)
        return (rows - mean[:, None]) / std.clamp_min(FLOOR)[:, None], mean, std

    def table(self) -> Any:
        """Per row: moments that no scale and no order changes, where its numbers lie, mean and deviation."""
        import torch

        z, mean, std = self.standard()
        ramp = torch.linspace(-1, 1, z.shape[1], dtype=torch.double)
        moments = [z.pow(3).mean(1), z.pow(4).mean(1), z.pow(5).mean(1), z.pow(6).mean(1).log1p()]
        return torch.stack([*moments, (z * ramp).mean(1), (z * ramp.square()).mean(1), mean, std], 1)

    def answers(self) -> Any:
        """The largest output of each row; the output itself where there is one."""
        import torch

        found = torch.cat([one.reshape(one.shape[0], -1).double().cpu() for one in self.outputs])
        return found.argmax(1) if found.shape[1] > 1 else found[:, 0]


def skews(known: list[tuple[tuple[int, Line], Records]]) -> list[dict[str, Any]]:
    """Pairs of lines on which one model met the same records in different forms."""
    told = []
    for place, ((model, _), one) in enumerate(known):
        for (other_model, _), other in known[place + 1 :]:
            if model == other_model and one.count and other.count and one.at == other.at:
                found = _skew(one, other)
                if found is not None:
                    told.append(found)
    return told


def _skew(one: Records, other: Records) -> dict[str, Any] | None:
    if one.given[0][0].numel() != other.given[0][0].numel() or one.outputs[0][0].numel() != other.outputs[0][0].numel():
        return None
    a, b = one.table(), other.table()
    distance = (a[:, None, :4] - b[None, :, :4]).abs() / (1 + a[:, None, :4].abs())
    near = distance.max(2).values
    best = near.min(0)
    # Records that look like several others (blank images) say nothing.
    single = (near < SAME).sum(0) == 1
    matched = (best.values < SAME) & single & (b[:, 7] > FLOOR)
    if not bool(matched.any()):
        return None
    mine, theirs = a[best.indices[matched]], b[matched]
    scale = (theirs[:, 7] / mine[:, 7].clamp_min(FLOOR)).median()
    offset = ((theirs[:, 6] - scale * mine[:, 6]).abs() / theirs[:, 7].clamp_min(FLOOR)).median()
    moved = (mine[:, 4:6] - theirs[:, 4:6]).abs().max(1).values > 10 * SAME
    permuted = bool(moved.double().mean() > 0.9)
    if permuted and not _one_order(one.standard()[0][best.indices[matched]], other.standard()[0][matched]):
        return None  # other records, with as many ones and zeros
    if not permuted and bool(moved.any()):
        kept = matched.nonzero()[:, 0][~moved]
        matched = matched.clone().fill_(False)
        matched[kept] = True
        if not bool(matched.any()):
            return None
    before, after = one.answers()[best.indices[matched]], other.answers()[matched]
    if not before.is_floating_point():
        flips = (before != after).double().mean()
    else:
        flips = ((before - after).abs() > 0.5 * before.std(correction=0)).double().mean()
    return {
        "model": one.model, "rows": int(matched.sum()), "scale": float(scale), "offset": float(offset), "permuted": permuted,
        "flips": float(flips), "reference": _place(one.line), "where": _place(other.line),
    }  # fmt: skip


def _one_order(mine: Any, theirs: Any) -> bool:
    """Whether one and the same exchange of columns makes all rows of these of those."""
    import torch

    if mine.shape[0] < 2 or mine.shape[1] > WIDEST:
        return False
    apart = torch.cdist(mine.T.contiguous(), theirs.T.contiguous(), p=float("inf"))
    return bool((apart.min(0).values < SIMILAR).double().mean() > MOST_COLUMNS)


def _place(line: Line) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line.file else None
