"""Records that a model is given on several lines: known again whatever scale and order their numbers come in."""

from typing import Any

from ..frames import Line

ROWS, TABLE = 256, 512
# The same record in another scale has the same standardised moments but for rounding; another record differs by far more.
SAME = 2e-3
FLOOR = 1e-9


class Records:
    """What is remembered of the rows that one model was given on one line."""

    def __init__(self, model: str, line: Line) -> None:
        self.model = model
        self.line = line
        self.at = -1
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.parts: list[Any] = []
        self.outputs: list[Any] = []
        self.tables: list[Any] = []

    def take(self, given: Any, output: Any, at: int) -> None:
        """Some rows of one call after `at` updates; answers of other weights are of no use any more."""
        import torch

        if at != self.at:
            self.at = at
            self._clear()

        room = ROWS - self.count
        if room <= 0 or output is None or not output.dim() or output.shape[0] != given.shape[0]:
            return
        rows = given.detach()[:room].reshape(min(room, given.shape[0]), -1).double()
        if rows.shape[1] < 4:
            return
        mean, std = rows.mean(1), rows.std(1, correction=0)
        z = (rows - mean[:, None]) / std.clamp_min(FLOOR)[:, None]
        ramp = torch.linspace(-1, 1, rows.shape[1], dtype=torch.double)
        moments = [z.pow(3).mean(1), z.pow(4).mean(1), z.pow(5).mean(1), z.pow(6).mean(1).log1p()]
        self.parts.append(torch.stack([*moments, (z * ramp).mean(1), (z * ramp.square()).mean(1), mean, std], 1))
        answer = output.detach()[:room].reshape(rows.shape[0], -1).double()
        self.outputs.append(answer.argmax(1) if answer.shape[1] > 1 else answer[:, 0])
        self.count += rows.shape[0]
        if given.dim() == 2 and rows.shape[1] <= TABLE:
            self.tables.append(rows)

    @property
    def table(self) -> Any:
        """Rows of moments, places, mean and deviation."""
        import torch

        return torch.cat(self.parts)


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
    import torch

    a, b = one.table, other.table
    if a.shape[1] != b.shape[1]:
        return None
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
    before, after = torch.cat(one.outputs)[best.indices[matched]], torch.cat(other.outputs)[matched]
    if before.dtype == torch.long:
        flips = (before != after).double().mean()
    else:
        flips = ((before - after).abs() > 0.5 * before.std(correction=0)).double().mean()
    return {
        "model": one.model, "rows": int(matched.sum()), "scale": float(scale), "offset": float(offset), "permuted": permuted,
        "flips": float(flips), "reference": _place(one.line), "where": _place(other.line),
    }  # fmt: skip


def _place(line: Line) -> dict[str, Any] | None:
    return {"file": line.file, "line": line.line} if line.file else None
