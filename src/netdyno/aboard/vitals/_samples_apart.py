"""Whether evaluation rows are apart from training rows: nearly the same ones, or windows that overlap."""

from typing import Any

# Rows of each side that are compared.
ROWS = 1500
# How many training rows may belong to one group, and how much farther away the first of another group is than its last.
GROUP, GAP = 24, 2.5
# Fewer columns lie close together by chance.
COLUMNS = 8
# Rows are looked at that begin so many places earlier or later.
SHIFTS = 32
WINDOWS = 4000


def groups(x: Any, y: Any, held_x: Any, held_y: Any, task: str) -> dict[str, Any]:
    """Whether rows of evaluation have training rows of their own kind, far nearer than all others, and what these tell."""
    import torch

    if y is None or held_y is None or not task or x.shape[1] < COLUMNS or min(len(x), len(held_x)) < 2 * GROUP:
        return {}
    x, y, held_x, held_y = (side[:: -(-len(side) // ROWS)] for side in (x, y, held_x, held_y))
    spread = x.double().std(0)
    # What moves little is noise of a blank column: it is not blown up to the size of the others.
    spread = spread.clamp(min=max(float(spread.median()), 1e-9))
    away, order = torch.cdist(held_x.double() / spread, x.double() / spread).topk(GROUP + 1, largest=False)
    steps, last = (away[:, 1:] / away[:, :-1].clamp(min=1e-12)).max(1)
    # Equal rows are told of elsewhere.
    grouped = (steps >= GAP) & (away[:, 0] > 1e-6 * away[:, -1])
    told: dict[str, Any] = {"near_rows": float(grouped.double().mean())}
    if int(grouped.sum()) < 2 * GROUP:
        return told
    beyond = order.gather(1, last[:, None] + 1)[grouped, 0]
    right = held_y[grouped]
    for name, rows in (("near_agree", order[grouped, 0]), ("beyond_agree", beyond)):
        told[name] = _fit(y[rows], right, task)
    return told


def _fit(guess: Any, right: Any, task: str) -> float:
    """How often labels are equal; of numbers, how much of their variance the guess takes away."""
    if task == "classes":
        return float((guess == right).double().mean())
    spread = float((right - right.mean()).square().mean())
    return 1 - float((guess - right).square().mean()) / max(spread, 1e-30)


def windows(x: Any, held: Any) -> dict[str, Any]:
    """Shares of evaluation rows that go on as a training row begins, and that begin as one goes on."""
    import torch

    width = x.shape[1]
    if width < COLUMNS:
        return {}
    x, held = x[:WINDOWS].double(), held[:WINDOWS].double()
    after, before = (torch.zeros(len(held), dtype=torch.bool) for _ in range(2))
    scale = float(x.abs().mean()) or 1.0
    for by in range(1, min(width // 2, SHIFTS) + 1):
        heads, tails = _prints(x[:, :-by], scale), _prints(x[:, by:], scale)
        own_head, own_tail = held[:, :-by], held[:, by:]
        after |= torch.isin(_prints(own_tail, scale), heads) & (own_tail.std(1) > 0)
        before |= torch.isin(_prints(own_head, scale), tails) & (own_head.std(1) > 0)
    return {"windows_before": float(before.double().mean()), "windows_after": float(after.double().mean())}


def _prints(part: Any, scale: float) -> Any:
    """One whole number for each row of numbers, which others hardly share."""
    import torch

    weights = torch.arange(1, part.shape[1] + 1, dtype=torch.float64).mul(1.618).sin() + 1.5
    return ((part * weights).sum(1) / scale * 1e9).round()
