"""A model of sequences that is judged on the next step sees that step in its input.

Looks for:  validation targets that are the inputs moved by one, and answers at a step that change when later inputs do.
Matters:    the target is there to be copied: the score is near perfect, and what it generates is not (fault bench T11).
Try:        a causal mask in attention, a one-sided padding in convolutions, no recurrent layer in both directions.
Not this:   models whose targets are not the next step of their input, which may look wherever they like.
"""

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate, answers, failed, item, passed, unseen
from netdyno.gates._specimens import candidate
from netdyno.measure.untouched import random_state
from netdyno.records.deployment import GateCheck

# The share of steps at which the target is the next input: padding and ends are not.
NEXT = 0.9
# Of the spread of the answers.
ALLOWED = 1e-3
ROWS = 8


@item
def seen_future(candidate: Candidate) -> GateCheck:
    if candidate.validation is None or len(candidate.example) != 1:
        return unseen("it takes one input, and validation data with targets")
    inputs, target = next(iter(candidate.batches(candidate.validation, ROWS)))
    x = inputs[0]
    if not isinstance(target, Tensor) or x.dim() < 2 or target.shape != x.shape or x.shape[1] < 3:
        return unseen("targets are not of the shape of the inputs")
    if float((target[:, :-1] == x[:, 1:]).double().mean()) < NEXT:
        return unseen("targets are not the next step of the inputs")
    model, steps = candidate.model.eval(), x.shape[1]
    before = answers(model, (x,))[0]
    # Scores lie on the last axis, or on the second as cross-entropy wants them.
    axis = next((axis for axis in (1, before.dim() - 1) if before.dim() > 1 and before.shape[axis] == steps), None)
    if axis is None:
        return unseen("the answers do not have one step per step of the input")
    before = before.movedim(axis, 1)
    half = steps // 2
    moved = x.clone()
    # Later steps of another row: of the same kind, and in any range.
    moved[:, half:] = x.roll(1, 0)[:, half:]
    after = answers(model, (moved,))[0].movedim(axis, 1)
    spread = float(before.double().std(correction=0)) or 1.0
    worst = float((before[:, :half] - after[:, :half]).abs().max()) / spread
    if worst <= ALLOWED:
        return passed("answers do not change with later inputs", worst=worst)
    return failed(
        f"answers to the first {half} steps change by up to {worst:.2g} of their spread with the steps after them, and the target is the next step",
        fix="give attention a causal mask, pad convolutions on the past side only, and use no recurrent layer in both directions",
        worst=worst,
    )


class _Reader(nn.Module):
    def __init__(self, *, both: bool) -> None:
        super().__init__()
        self.table, self.cell = nn.Embedding(12, 8), nn.GRU(8, 8, batch_first=True, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, 12)

    def forward(self, ids: Tensor) -> Tensor:
        out, _ = self.cell(self.table(ids))
        return torch.Tensor(self.head(out))


def _steps(*, shifted: bool) -> tuple[Tensor, Tensor]:
    ids = torch.randint(0, 12, (32, 11), generator=torch.Generator().manual_seed(0))
    return ids[:, :-1], ids[:, 1:] if shifted else ids[:, :-1].flip(1)


def _reader(*, both: bool, shifted: bool) -> Candidate:
    with random_state():
        torch.manual_seed(0)
        model = _Reader(both=both).eval()
    rows = _steps(shifted=shifted)
    return candidate(model, data=rows, quality=lambda output, target: (output.argmax(2) == target).double().mean(1))


SICK = (lambda: _reader(both=True, shifted=True),)
WELL = (lambda: _reader(both=False, shifted=True), lambda: _reader(both=True, shifted=False), candidate)
