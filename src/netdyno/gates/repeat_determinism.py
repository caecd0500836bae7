"""The same rows get another answer when they are asked again, in eval mode.

Looks for:  answers that differ by a bit between calls, and the random operation behind them with its line, whichever function, module or
            script it was called by.
Matters:    dropout called as a function (its default is `training=True`), noise, stochastic depth or a trace made in training mode
            answers the same request differently; nothing that is exported can be compared (ledger A-241, A-250).
Try:        `training=self.training` in the call; export again in eval mode; no noise outside of training.
Not this:   rows that depend on their batch (see `batch-mates`). Monte-Carlo dropout is meant so: allow this item.
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from netdyno.gates import _operations as operations
from netdyno.gates._base import Candidate, answers, apart, failed, item, passed, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.measure.untouched import random_state
from netdyno.records.deployment import GateCheck

# Dropout or noise shows on the first repeat.
REPEATS = 3
# Where something is drawn that did not show, it may be a rare choice, such as a layer skipped one time in ten.
PATIENT = 60


@item
def repeat_determinism(candidate: Candidate) -> GateCheck:
    model, rows = candidate.model.eval(), candidate.rows
    drawn: dict[str, str] = {}

    def look(func: object, args: tuple[object, ...], _: object) -> None:
        if operations.is_random(func, args):
            drawn.setdefault(operations.name_of(func), operations.place())

    with random_state():
        host = _host_state()
        operations.watched(model, rows, look)
        elsewhere = host != _host_state()
        repeats = PATIENT if drawn or elsewhere else REPEATS
        first = answers(model, rows)
        if not first:
            return unseen("the module answers with no tensor")
        worst, differing = 0.0, 0
        for _ in range(repeats):
            again = answers(model, rows)
            differing += not _equal(first, again)
            worst = max(worst, min(apart(first, again), 1e9))
    if not differing:
        says = f"the same {len(rows[0])} rows get the same bits {repeats} times"
        return passed(f"{says}, though `{next(iter(drawn))}` is drawn" if drawn else says, repeats=float(repeats))
    because = {"differing": differing / repeats, "worst": worst}
    says = f"the same rows get other answers in {differing} of {repeats} calls in eval mode, by up to {worst:.2g} of their spread"
    if drawn:
        name, where = next(iter(drawn.items()))
        at = f" at {where}" if where else ""
        return failed(f"{says}: `{name}` is drawn{at}", fix=_fix(name), where=where, numbers=because)
    if elsewhere:
        return failed(
            f"{says}: numbers are drawn from Python's or NumPy's generator",
            fix="draw nothing in `forward` outside of training",
            numbers=because,
        )
    return failed(
        f"{says}: nothing is drawn, so it keeps something from one call to the next",
        fix="start each call from the same state: no counters, caches or hidden states kept between requests",
        numbers=because,
    )


def _fix(name: str) -> str:
    if "bernoulli" in name or "dropout" in name:
        return (
            "pass `training=self.training` to the dropout, or use nn.Dropout; if it is meant (Monte-Carlo dropout), "
            'allow it: `allow=("repeat-determinism",)`'
        )
    return 'draw only `if self.training`; if it is meant, allow it: `allow=("repeat-determinism",)`'


def _equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        for a, b in zip(one, other, strict=True)
    )


def _host_state() -> tuple[object, ...]:
    numeric: Any = np.random.get_state()  # noqa: NPY002  user code draws from the global state
    return (random.getstate(), numeric[1].tobytes(), numeric[2])


def _dropped(x: Tensor) -> Tensor:
    return nn.functional.dropout(x, 0.3)


def _noisy(x: Tensor) -> Tensor:
    return x + 0.1 * torch.randn_like(x)


def _seldom(x: Tensor) -> Tensor:
    return x if random.random() < 0.8 else 0.5 * x


class _Counting(Net):
    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        answer: Tensor = super().forward(x)
        return answer + 0.01 * self.calls


def _traced_awake() -> Iterator[nn.Module]:
    model = trained(Net()).train()
    yield torch.jit.trace(model, torch.randn(2, 1, 8, 8), check_trace=False)


def _masked(x: Tensor) -> Tensor:
    return x.masked_fill(torch.zeros_like(x, dtype=torch.bool), float("-inf"))


SICK = (
    lambda: candidate(trained(Net(_dropped))),
    lambda: candidate(trained(Net(_noisy))),
    lambda: candidate(trained(Net(_seldom))),
    lambda: candidate(trained(_Counting())),
    lambda: candidate(next(_traced_awake())),
)
WELL = (candidate, lambda: candidate(trained(Net(_masked))), lambda: candidate(trained(Net(torch.sigmoid))))
