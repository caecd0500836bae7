"""Keeps several sets of batch norm statistics, one for each domain, and answers every row with those of its own (ledger A-205).

It works as far as the selector is right: with the wrong set a row is answered worse than with the common one. `judged` reports both.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from netdyno.aftercare import batchnorm_recalibration as recalibration
from netdyno.aftercare._reference import Reference, evaluating
from netdyno.errors import NetdynoError
from netdyno.records.deployment import Accuracy
from netdyno.stats.shares import counted_share
from netdyno.verdicts.paired_accuracy import judged as paired

Rows = tuple[Tensor, ...]
Selector = Callable[[Rows], Tensor]  # inputs -> the number of the domain of each row
# Channels of an input that never vary tell domains apart by nothing: this much of their overall spread is added.
LEAST_SPREAD = 1e-3


@dataclass
class _Choice:
    """Which set each row is answered with: shared by all norms of one model, set for one call. A number is for all rows."""

    rows: "Tensor | int" = 0


class SwitchableBatchNorm(nn.Module):
    """One batch norm with statistics of several domains; weight and bias are shared, or one for each domain."""

    means: Tensor
    variances: Tensor
    counts: Tensor

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm, domains: int, choice: _Choice, *, shared: bool) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        self.kind, self.features, self.eps, self.momentum = type(norm), norm.num_features, norm.eps, norm.momentum
        self.choice = choice
        sets = domains if not shared else 1
        self.register_buffer("means", norm.running_mean.detach().repeat(domains, 1))
        self.register_buffer("variances", norm.running_var.detach().repeat(domains, 1))
        tracked = norm.num_batches_tracked if norm.num_batches_tracked is not None else torch.tensor(0)
        self.register_buffer("counts", tracked.detach().repeat(domains))
        weight = norm.weight if norm.affine else torch.ones(norm.num_features)
        bias = norm.bias if norm.affine else torch.zeros(norm.num_features)
        self.affine = norm.affine
        self.weights = nn.Parameter(weight.detach().repeat(sets, 1), requires_grad=norm.affine)
        self.biases = nn.Parameter(bias.detach().repeat(sets, 1), requires_grad=norm.affine)

    def forward(self, inputs: Tensor) -> Tensor:
        """Every row with the set of its own domain."""
        rows = self.choice.rows
        # A number still names a row of the table, so that one formula serves for both.
        at = torch.full((1,), rows, device=inputs.device) if isinstance(rows, int) else rows.to(inputs.device)
        own = at if len(self.weights) > 1 else torch.zeros_like(at)
        scale = self.weights[own] * torch.rsqrt(self.variances[at] + self.eps)
        shift = self.biases[own] - self.means[at] * scale
        shape = (len(at), -1, *[1] * (inputs.dim() - 2))
        return inputs * scale.reshape(shape) + shift.reshape(shape)

    def plain(self, domain: int) -> nn.modules.batchnorm._BatchNorm:
        """An ordinary batch norm with one domain's set, to the byte."""
        norm = self.kind(self.features, eps=self.eps, momentum=self.momentum, affine=self.affine)
        own = domain if len(self.weights) > 1 else 0
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        with torch.no_grad():
            norm.running_mean.copy_(self.means[domain])
            norm.running_var.copy_(self.variances[domain])
            norm.num_batches_tracked.copy_(self.counts[domain])
            if self.affine:
                norm.weight.copy_(self.weights[own])
                norm.bias.copy_(self.biases[own])
        return norm


@dataclass(frozen=True, kw_only=True)
class Switchable:
    """A model whose batch norms hold a set for each domain. The model that it was made of is untouched: keeping it is the undo."""

    model: nn.Module
    domains: tuple[str, ...]
    choice: _Choice = field(repr=False)

    @contextmanager
    def using(self, domain: "str | Tensor") -> Iterator[nn.Module]:
        """The model with one domain's set for all rows, or with a number of a domain for each row."""
        before = self.choice.rows
        self.choice.rows = self.number(domain) if isinstance(domain, str) else domain
        try:
            yield self.model
        finally:
            self.choice.rows = before

    def __call__(self, inputs: Rows, domain: "str | Tensor | Selector") -> Any:
        """Answers, each row with the set of its domain."""
        chosen = domain if isinstance(domain, str | Tensor) else domain(inputs)
        with self.using(chosen) as model:
            return model(*inputs)

    def number(self, domain: str) -> int:
        """The number of a domain. Raises NetdynoError for an unknown one."""
        if domain not in self.domains:
            raise NetdynoError(
                f"there is no domain `{domain}`", because=f"the model has sets for {', '.join(self.domains)}",
                hint="name one of these, or make the model anew with `switchable`",
            )  # fmt: skip
        return self.domains.index(domain)

    def plain(self, domain: str) -> nn.Module:
        """An ordinary model with one domain's set: the first domain's, before `fill`, is the model that was given, to the byte."""
        at = self.number(domain)
        return _replaced(
            copy.deepcopy(self.model), lambda one: one.plain(at) if isinstance(one, SwitchableBatchNorm) else None
        )


def switchable(model: nn.Module, domains: Sequence[str], *, shared_affine: bool = True) -> Switchable:
    """A copy of the model with a set for each domain, all of them those that it has now. Raises NetdynoError without batch norms."""
    recalibration.taken(model)  # refuses a model that has none
    choice = _Choice()

    def wrapped(module: nn.Module) -> nn.Module | None:
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            return SwitchableBatchNorm(module, len(domains), choice, shared=shared_affine)
        return None

    return Switchable(model=_replaced(copy.deepcopy(model).eval(), wrapped), domains=tuple(domains), choice=choice)


def fill(
    switched: Switchable,
    domain: str,
    rows: Iterable[Rows],
    *,
    least: int = recalibration.LEAST_ROWS,
    batch: int = recalibration.BATCH,
) -> recalibration.Recalibration:
    """Renew one domain's set from unlabelled rows of it; the other sets stay as they are, to the byte. `undo` takes `plain(domain)`."""
    at = switched.number(domain)
    ordinary = switched.plain(domain)
    done = recalibration.recalibrate(ordinary, rows, least=least, batch=batch, source=domain)
    fresh: dict[str, Any] = dict(ordinary.named_modules())
    with torch.no_grad():
        for name, module in switched.model.named_modules():
            if isinstance(module, SwitchableBatchNorm):
                module.means[at].copy_(fresh[name].running_mean)
                module.variances[at].copy_(fresh[name].running_var)
                module.counts[at].copy_(fresh[name].num_batches_tracked)
    return done


def _replaced(model: nn.Module, change: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """The model with some of its modules exchanged, in their own mode, on their own device."""
    whole = change(model)
    if whole is not None:
        return whole.train(model.training)
    for name, child in list(model.named_children()):
        fresh = change(child)
        if fresh is None:
            _replaced(child, change)
            continue
        at = next((tensor for tensor in (*child.parameters(), *child.buffers()) if tensor.is_floating_point()), None)
        setattr(model, name, (fresh if at is None else fresh.to(at.device, at.dtype)).train(child.training))
    return model


# ---------------------------------------------------------------- who chooses


class StatisticsSelector:
    """Tells domains apart by the mean and deviation of each channel of a row: the domain whose rows are likeliest to look like this."""

    def __init__(self, examples: Sequence[Rows]) -> None:
        looks = [_looks(rows) for rows in examples]
        common = torch.cat(looks).std(0).clamp_min(1e-12)
        self.centres = torch.stack([look.mean(0) for look in looks])
        self.spreads = torch.stack([look.std(0) + LEAST_SPREAD * common for look in looks])

    def __call__(self, inputs: Rows) -> Tensor:
        """The number of the likeliest domain of each row."""
        looks = _looks(inputs)[:, None]
        surprise = ((looks - self.centres) / self.spreads).square().sum(2) / 2 + self.spreads.log().sum(1)
        return surprise.argmin(1)


def _looks(rows: Rows) -> Tensor:
    """Mean and deviation of each channel of the first input, for each row; a row of plain features is its own look."""
    first = rows[0].double()
    if first.dim() < 3:
        return first.reshape(len(first), -1)
    flat = first.flatten(2)
    return torch.cat((flat.mean(2), flat.std(2)), 1)


# ---------------------------------------------------------------- whether it pays


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What sets are worth. `table[data][set]` is the mean quality of each domain's rows with each domain's set.

    `matched` compares, over all rows, the right set with the other one that does best; a negative drop is what matching wins.
    `confusion[true][chosen]` counts what a selector chose; `selected` compares its choice with the right one.
    """

    table: dict[str, dict[str, float]]
    matched: Accuracy
    confusion: dict[str, dict[str, int]] = field(default_factory=dict)
    selected: Accuracy | None = None
    says: tuple[str, ...] = ()


def judged(
    switched: Switchable,
    sets: dict[str, Reference],
    *,
    selector: Selector | None = None,
    margin: float = 0.0,
    max_drop: float = 0.005,
    level: float = 0.95,
) -> Judgement:
    """Answer every domain's labelled rows with every set. Matching pays where it beats any other set by `margin` beyond chance."""
    scores = {
        data: {one: _scores(switched, reference, one) for one in switched.domains} for data, reference in sets.items()
    }
    right = [score for data in sets for score in scores[data][data]]
    others = {
        data: max((one for one in switched.domains if one != data), key=lambda one, data=data: sum(scores[data][one]))  # type: ignore[misc]
        for data in sets
    }
    wrong = [score for data in sets for score in scores[data][others[data]]]
    matched = paired(wrong, right, limit=-margin, level=level)
    confusion: dict[str, dict[str, int]] = {}
    selected = None
    if selector is not None:
        chosen = {data: selector(reference.inputs) for data, reference in sets.items()}
        confusion = {
            data: {one: int((chosen[data] == at).sum()) for at, one in enumerate(switched.domains)} for data in sets
        }
        picked = [score for data, reference in sets.items() for score in _scores(switched, reference, chosen[data])]
        selected = paired(right, picked, limit=max_drop, level=level)
    table = {data: {one: sum(column) / len(column) for one, column in row.items()} for data, row in scores.items()}
    return Judgement(
        table=table, matched=matched, confusion=confusion, selected=selected,
        says=tuple(_says(matched, confusion, selected, margin=margin, level=level)),
    )  # fmt: skip


def _scores(switched: Switchable, reference: Reference, domain: "str | Tensor") -> list[float]:
    if isinstance(domain, str):
        with switched.using(domain) as model:
            return reference.scores(model)
    # A number for each row: in one forward, for rows and their domains must stay together.
    from netdyno.targets.release import Release

    release = Release(model=lambda: switched.model, example=lambda: reference.inputs, quality=reference.quality)
    with switched.using(domain) as model, evaluating(model), torch.no_grad():
        return [float(one) for one in release.rows_right(model(*reference.inputs), reference.targets)]


def _says(
    matched: Accuracy,
    confusion: dict[str, dict[str, int]],
    selected: Accuracy | None,
    *,
    margin: float,
    level: float,
) -> Iterator[str]:
    gain = -matched.drop.middle
    range_ = f"{gain:+.2%} ({-matched.drop.high:+.2%} to {-matched.drop.low:+.2%})"
    words = {
        "holds": "matched sets win", "broken": "matched sets do not win", "cannot tell": "cannot tell whether matched sets win"
    }  # fmt: skip
    yield f"{words[matched.decision]} more than {margin:.2%} over the best other set: {range_}"
    for data, row in confusion.items():
        hits, looks = row.get(data, 0), sum(row.values())
        share = counted_share(hits, looks, level=level)
        yield f"the selector takes {hits} of {looks} rows of `{data}` for what they are ({share.low:.1%} to {share.high:.1%})"
    if selected is not None:
        yield f"with the selector instead of the truth: {selected.says}"
