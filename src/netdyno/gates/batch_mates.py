"""What the module answers to a row depends on the rows beside it, in eval mode.

Looks for:  a row that gets another answer when its neighbours are replaced by copies of itself, in a batch of the same size.
Matters:    a service batches whoever asks at the same time: the answer to one client then depends on the others.
Try:        BatchNorm with running statistics, a softmax or a normalisation over the right axis, no reshape that merges rows.
Not this:   rounding, which is another one for other sizes; random answers (see `repeat-determinism`).
"""

import torch
from torch import Tensor, nn

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, answers, apart, failed, item, passed, plural, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

# Of the spread of the answers. Rounding leaves a hundred-thousandth; what mixes rows moves them by a tenth and more.
ALLOWED = 1e-3
# Rows that are asked alone among copies of themselves.
ASKED = 8


@item
def batch_mates(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), candidate.rows
    together = answers(model, rows)
    if apart(together, answers(model, rows)) > 0:
        return unseen("the answers are random already (see `repeat-determinism`)")
    count = len(rows[0])
    if any(not leaf.dim() or len(leaf) != count for leaf in together):
        return unseen("the answers do not have rows first (see `rows-first`)")
    asked = range(0, count, max(1, count // ASKED))
    worst, changed = 0.0, 0
    for at in asked:
        alone = answers(model, tuple(tensor[at : at + 1].expand_as(tensor).contiguous() for tensor in rows))
        # The spread is that of all rows; only this row differs, so that the others are set alike.
        swapped = [_put(leaf, at, own[at]) for leaf, own in zip(together, alone, strict=True)]
        distance = min(apart(together, swapped), 1e9)
        worst, changed = max(worst, distance), changed + (distance > ALLOWED)
    if worst <= ALLOWED:
        return passed(f"{plural(len(asked), 'row')} are answered alike beside others", worst=worst)
    kind, where = _mixer(model, candidate)
    return failed(
        f"{changed} of {len(asked)} rows are answered differently beside other rows, by up to {worst:.2g} of the answers' spread{kind}",
        fix="let BatchNorm use its running statistics, and give softmax, normalisation, attention and reshapes the axis of the features: "
        "axis 0 counts requests",
        where=where,
        worst=worst,
        rows=float(changed),
    )


def _put(leaf: Tensor, at: int, value: Tensor) -> Tensor:
    made = leaf.clone()
    made[at] = value
    return made


def _mixer(model: nn.Module, candidate: Candidate) -> tuple[str, str]:
    """The operation that is known to mix rows, in words, and its line: batch statistics, or a softmax along the first axis."""
    found: list[tuple[str, str]] = []

    def look(func: object, args: tuple[object, ...], _: object) -> None:
        name = operations.name_of(func)
        if "batch_norm" in name and any(flag is True for flag in args[5:6]):
            found.append((": batch normalisation with the statistics of the batch", operations.place()))
        if "softmax" in name and isinstance(args[0], Tensor) and args[1] in (0, -args[0].dim()) and args[0].dim() > 1:
            found.append((": a softmax along the rows", operations.place()))

    operations.watched(model, candidate.rows, look)
    kind, where = found[0] if found else ("", "")
    return (f"{kind} at {where}" if where else kind), where


class _OwnStatistics(Net):
    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.batch_norm(self.conv(x), None, None, self.norm.weight, self.norm.bias, training=True)
        return torch.Tensor(self.head(nn.functional.avg_pool2d(x.relu(), 2).flatten(1)))


def _over_rows(x: Tensor) -> Tensor:
    return x.softmax(0)


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(0)


def _untracked() -> Net:
    model = trained(Net())
    model.norm.running_mean = model.norm.running_var = None
    return model


SICK = (
    lambda: candidate(trained(_OwnStatistics())),
    lambda: candidate(trained(Net(_over_rows))),
    lambda: candidate(trained(Net(_centred))),
    lambda: candidate(_untracked()),
)
WELL = (
    candidate,
    lambda: candidate(trained(Net(lambda x: x.softmax(1)))),
    lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))),
)
