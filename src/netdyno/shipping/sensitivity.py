"""Which layer quantisation ruins, and whether calibration saw what production sends: both before anything is quantised.

Int8 is simulated in PyTorch as runtimes do it: weights per output channel around zero, what goes into a layer per tensor between
the least and the largest number that calibration showed.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from netdyno.records.deployment import GateCheck, LayerNoise
from netdyno.targets.release import Inputs, Release, stratified

# Layers whose weights are multiplied in 8 bits.
LAYERS = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.MultiheadAttention,
)  # fmt: skip
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
# Rounding in float32 itself leaves about 140 dB; beyond this there is no noise to speak of.
MOST_DB = 150.0
# A layer ten times noisier than the middle one makes up most of the noise alone.
STANDS_OUT_DB = 10.0
# A layer that leaves this much has cost no decision yet; a whole model in int8 leaves 20 to 45.
HARMLESS_DB = 40.0
# More than a few layers in float give away what int8 wins; then the way is another calibration, or training with it.
AT_MOST = 3
# What calibration did not see is cut off: beyond a tenth of the range that is more than rounding.
BEYOND = 0.10
# How seldom a calibration set drawn like production may be called too narrow, over all channels together.
ALPHA = 0.01
# Whatever the reason: where more rows than this are cut off, int8 answers for another input than was sent.
CUT_OFF = 0.02
FIRST_LAYERS = 3  # activations further in follow from these
ROWS = 300  # of calibration and of production that are looked at


class Range(NamedTuple):
    """The least and the largest number that went into a layer."""

    low: float
    high: float


def layer_noise(model: nn.Module, rows: Iterable[Inputs]) -> tuple[LayerNoise, ...]:
    """What int8 does to the answers when one layer alone is quantised, the worst first. The model stays as it is."""
    batches = _joined(rows)
    with _looked_at(model):
        ranges = _ranges(model, batches)
        truth = _answers(model, batches)
        found = []
        for name in ranges:
            with _rounding(model, {name: ranges[name]}) as weights:
                found.append(LayerNoise(layer=name, sqnr_db=decibels(_answers(model, batches, weights), truth)))
    return tuple(sorted(found, key=lambda one: one.sqnr_db))


def keep_in_float(noise: Sequence[LayerNoise], *, most: int = AT_MOST) -> tuple[str, ...]:
    """The layers that stand out so far that the rest can be quantised without them, the worst first; none where none does.

    >>> keep_in_float([LayerNoise(layer="a", sqnr_db=8.0), LayerNoise(layer="b", sqnr_db=35.0), LayerNoise(layer="c", sqnr_db=38.0)])
    ('a',)
    """
    if len(noise) < 2:
        return ()
    bar = min(_middle(noise) - STANDS_OUT_DB, HARMLESS_DB)
    worst = sorted((one for one in noise if one.sqnr_db < bar), key=lambda one: one.sqnr_db)
    return tuple(one.layer for one in worst[:most])


def reason(noise: Sequence[LayerNoise]) -> str:
    """In words, why these layers are kept in float, or why none is."""
    kept = keep_in_float(noise)
    if not noise:
        return "the model has no layer that is multiplied in 8 bits"
    if not kept:
        return f"no layer stands out: the worst, `{noise[0].layer}`, leaves {noise[0].sqnr_db:.0f} dB, the middle one {_middle(noise):.0f}"
    told = ", ".join(f"`{one.layer}` leaves {one.sqnr_db:.0f} dB" for one in noise if one.layer in kept)
    return f"quantised alone, {told}; the middle layer leaves {_middle(noise):.0f}"


def _middle(noise: Sequence[LayerNoise]) -> float:
    return statistics.median(one.sqnr_db for one in noise)


def decibels(mine: Tensor, truth: Tensor) -> float:
    """Signal to noise over all answers, at most what float32 itself leaves."""
    noise, signal = float((mine - truth).square().sum()), float(truth.square().sum())
    if not math.isfinite(noise) or not signal:
        return 0.0 if noise else MOST_DB
    return min(MOST_DB, 10 * math.log10(signal / noise)) if noise else MOST_DB


def simulated(model: nn.Module, calibration: Iterable[Inputs], inputs: Iterable[Inputs]) -> Tensor:
    """All answers to `inputs`, one after the other, with every layer quantised by the ranges of `calibration`."""
    with _looked_at(model):
        ranges = _ranges(model, _joined(calibration))
        with _rounding(model, ranges) as weights:
            return _answers(model, _joined(inputs), weights)


@contextmanager
def _looked_at(model: nn.Module) -> Iterator[None]:
    """In eval mode, without gradients, and without the short cut through an encoder layer that calls none of its parts."""
    modes = {module: module.training for module in model.modules()}
    short_cut = torch.backends.mha.get_fastpath_enabled()
    model.eval()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(short_cut)
        for module, mode in modes.items():
            module.training = mode


def _layers(model: nn.Module) -> dict[str, nn.Module]:
    """By name; what lies within attention is part of it."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, LAYERS)}
    attention = tuple(f"{name}." for name, module in found.items() if isinstance(module, nn.MultiheadAttention))
    return {name: module for name, module in found.items() if not name.startswith(attention)}


def _ranges(model: nn.Module, batches: Sequence[Inputs]) -> dict[str, Range]:
    """What went into each layer that is called, in the order of the first calls."""
    seen: dict[str, Range] = {}

    def look(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            for tensor in _floats(args):
                low, high = map(float, tensor.aminmax())
                before = seen.get(name, Range(0.0, 0.0))  # zero must be a number of the grid
                seen[name] = Range(min(before.low, low), max(before.high, high))

        return hook

    handles = [module.register_forward_pre_hook(look(name)) for name, module in _layers(model).items()]
    try:
        _answers(model, batches)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@contextmanager
def _rounding(model: nn.Module, ranges: dict[str, Range]) -> Iterator[dict[str, Tensor]]:
    """Rounds what goes into these layers; gives the rounded weights, for `functional_call`."""
    layers = _layers(model)
    weights: dict[str, Tensor] = {}
    handles = []
    for name, seen in ranges.items():
        handles.append(layers[name].register_forward_pre_hook(_rounds(seen)))
        for parameter, tensor in layers[name].named_parameters():
            if tensor.dim() > 1:
                whole = f"{name}.{parameter}" if name else parameter
                weights[whole] = by_channel(tensor, dim=1 if isinstance(layers[name], TRANSPOSED) else 0)
    try:
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def _rounds(seen: Range) -> Callable[..., tuple[Any, ...]]:
    def hook(_: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            by_range(one, seen) if isinstance(one, Tensor) and one.is_floating_point() else one for one in args
        )

    return hook


def by_channel(weight: Tensor, *, dim: int = 0) -> Tensor:
    """Weights in 8 bits around zero, with a scale for each output channel."""
    scale = weight.abs().amax([at for at in range(weight.dim()) if at != dim], keepdim=True).clamp_min(1e-12) / 127
    return (weight / scale).round().clamp(-127, 127) * scale


def by_range(tensor: Tensor, seen: Range) -> Tensor:
    """Numbers in 256 steps between the ends of a range; what lies beyond is cut off."""
    scale = max(seen.high - seen.low, 1e-12) / 255
    zero = round(-seen.low / scale)
    return ((tensor / scale).round().add(zero).clamp(0, 255) - zero) * scale


def _answers(model: nn.Module, batches: Sequence[Inputs], weights: dict[str, Tensor] | None = None) -> Tensor:
    """All floating-point answers, one after the other."""
    found = []
    for batch in batches:
        output = torch.func.functional_call(model, weights or {}, batch)
        found += [leaf.double().reshape(len(batch[0]), -1) for leaf in _floats(pytree.tree_leaves(output))]
    same = len({one.shape[1] for one in found}) == 1
    return torch.cat(found) if same else torch.cat([one.reshape(-1) for one in found])


def _floats(leaves: Iterable[Any]) -> list[Tensor]:
    return [one for one in leaves if isinstance(one, Tensor) and one.is_floating_point() and one.numel()]


def _joined(rows: Iterable[Inputs], most: int = 32) -> list[Inputs]:
    """Batches of rows that have one shape and came one after the other."""
    waiting: list[list[Inputs]] = []
    for row in rows:
        shapes = [tensor.shape[1:] for tensor in row]
        if waiting and [tensor.shape[1:] for tensor in waiting[-1][0]] == shapes and len(waiting[-1]) < most:
            waiting[-1].append(row)
        else:
            waiting.append([row])
    return [tuple(map(torch.cat, zip(*part, strict=True))) for part in waiting]


def covered(release: Release, *, rows: int = ROWS) -> tuple[GateCheck, ...]:
    """Whether the calibration data of a release covers what it declares of production (ledger A-274)."""
    data, width = release.calibration_data(), len(release.sample())
    if data is None or release.production is None:
        lacks = "calibration" if data is None else "production"
        return (
            GateCheck(
                name="coverage",
                ok=None,
                says=f"no `{lacks}` data is declared, so nobody can tell whether calibration covers production",
                fix=f"declare `{lacks}=` on the release",
            ),
        )
    given = release.production()
    production = (given,) if isinstance(given, Tensor) else tuple(given)
    calibration = [_row(data[at], width) for at in stratified(release, data, rows)]
    spaced = torch.linspace(0, len(production[0]) - 1, min(rows, len(production[0]))).round().long()
    sent = [tuple(tensor[at : at + 1] for tensor in production) for at in spaced.tolist()]
    return coverage(calibration, sent, model=release.module(), names=release.names)


def _row(sample: Any, width: int) -> Inputs:
    parts = sample if isinstance(sample, tuple | list) else (sample,)
    return tuple(part[None] for part in parts[:width])


def coverage(
    calibration: Iterable[Inputs],
    production: Iterable[Inputs],
    *,
    model: nn.Module | None = None,
    names: Sequence[str] = (),
) -> tuple[GateCheck, ...]:
    """Whether what production sends lies within what calibration showed: each input by its channels, and what goes into the first layers.

    Rows of production beyond the range may be there by chance: of `n + m` rows alike, the `k` largest are all of the `m` with a
    chance that does not depend on how they are distributed. More than that is an error, because int8 cuts off what calibration did not see;
    so is a share of rows that is surely above what may be cut off, as few calibration rows may have missed it by chance.
    """
    shown, sent = _joined(calibration), _joined(production)
    found = []
    for at in range(len(shown[0])):
        name = names[at] if at < len(names) else f"input{at}"
        if shown[0][at].is_floating_point():
            found.append(_compared(name, _extremes(shown, at), _extremes(sent, at), "channel"))
        else:
            found.append(_seen_before(name, shown, sent, at))
    if model is not None:
        before, now = _entering(model, shown), _entering(model, sent)
        found += [_compared(name, before[name], now[name], "tensor") for name in before if name in now]
    return tuple(found)


class Extremes(NamedTuple):
    """Rows by channels: the least and the largest number of each row in each channel."""

    low: Tensor
    high: Tensor


def _extremes(batches: Sequence[Inputs], at: int) -> Extremes:
    parts = [_by_channel(batch[at].double()) for batch in batches]
    return Extremes(torch.cat([part.amin(2) for part in parts]), torch.cat([part.amax(2) for part in parts]))


def _by_channel(tensor: Tensor) -> Tensor:
    """Rows, channels, the rest: the first dimension after the rows is that of channels."""
    return tensor.reshape(len(tensor), tensor.shape[1] if tensor.dim() > 1 else 1, -1)


def _entering(model: nn.Module, batches: Sequence[Inputs]) -> dict[str, Extremes]:
    """What goes into the first layers: quantisers give each of these one range for all channels.

    Into the very first go the inputs, which are looked at themselves unless they are whole numbers.
    """
    first = 1 if batches[0][0].is_floating_point() else 0
    seen: dict[str, list[Tensor]] = {}

    def look(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            for tensor in _floats(args[:1]):
                if len(tensor) == rows and (name in seen or len(seen) <= FIRST_LAYERS):
                    seen.setdefault(name, []).append(tensor.double().reshape(rows, 1, -1))

        return hook

    with _looked_at(model):
        handles = [module.register_forward_pre_hook(look(name)) for name, module in _layers(model).items()]
        try:
            for batch in batches:
                rows = len(batch[0])
                model(*batch)
        finally:
            for handle in handles:
                handle.remove()
    return {
        name: Extremes(torch.cat([part.amin(2) for part in parts]), torch.cat([part.amax(2) for part in parts]))
        for name, parts in list(seen.items())[first : FIRST_LAYERS + first]
    }


def _compared(name: str, shown: Extremes, sent: Extremes, kind: str) -> GateCheck:
    """One check for one tensor: the channel that is exceeded most is named."""
    low, high = shown.low.amin(0), shown.high.amax(0)
    width = (high - low).clamp_min(1e-12)
    above, below = sent.high > high + BEYOND * width, sent.low < low - BEYOND * width
    rows, calibrated = len(sent.high), len(shown.high)
    counts = torch.stack([above.sum(0), below.sum(0)])
    channel = int(counts.amax(0).argmax())
    most = int(counts[:, channel].max())
    outside = float((above | below).any(1).double().mean())
    chance = by_chance(most, calibrated, rows) * counts.numel()
    because = {
        "outside": outside,
        "chance": min(1.0, chance),
        **_quantiles("calibrated", shown, channel),
        **_quantiles("sent", sent, channel),
    }
    where = f"`{name}`" + (f", channel {channel}" if kind == "channel" and len(low) > 1 else "")
    if chance > ALPHA and at_least(most, rows) <= CUT_OFF:
        told = f"{where}: {outside:.1%} of {rows} rows go beyond what {calibrated} calibration rows showed"
        return GateCheck(name="coverage", ok=True, says=told, where=name, because=because)
    return GateCheck(
        name="coverage",
        ok=False,
        says=(
            f"{where}: {outside:.1%} of {rows} rows go beyond what calibration showed ({float(low[channel]):.3g} to "
            f"{float(high[channel]):.3g}, production {float(sent.low[:, channel].min()):.3g} to {float(sent.high[:, channel].max()):.3g})"
        ),
        fix="put rows like these into `calibration`; where they are rare, declare `groups=` so that each kind has its share",
        where=name,
        because=because,
    )


def by_chance(beyond: int, calibrated: int, rows: int) -> float:
    """How likely the `beyond` largest of all rows are all of production, when both sets are drawn alike.

    >>> by_chance(1, 99, 1)
    0.01
    """
    if beyond > rows:
        return 0.0
    return math.prod((rows - k) / (calibrated + rows - k) for k in range(beyond))


def at_least(beyond: int, rows: int) -> float:
    """The share of all rows that is surely exceeded (Clopper and Pearson 1934, one-sided) when so many of these are beyond.

    >>> at_least(0, 50)
    0.0
    >>> round(at_least(23, 400), 3)
    0.034
    """
    from scipy.stats import beta

    return float(beta.ppf(ALPHA, beyond, rows - beyond + 1)) if beyond else 0.0


def _quantiles(name: str, held: Extremes, channel: int) -> dict[str, float]:
    """Of the rows' least and largest numbers in one channel."""
    low, high = held.low[:, channel], held.high[:, channel]
    return {
        f"{name} least": float(low.min()),
        f"{name} low 5 %": float(low.quantile(0.05)),
        f"{name} low 50 %": float(low.median()),
        f"{name} high 50 %": float(high.median()),
        f"{name} high 95 %": float(high.quantile(0.95)),
        f"{name} largest": float(high.max()),
    }


def _seen_before(name: str, shown: Sequence[Inputs], sent: Sequence[Inputs], at: int) -> GateCheck:
    """Whole numbers have no range; those that calibration never showed choose rows of a table that it never showed."""
    known = torch.cat([batch[at].reshape(-1) for batch in shown]).unique()
    strange = torch.cat([~torch.isin(batch[at], known).reshape(len(batch[at]), -1) for batch in sent])
    share = float(strange.double().mean())
    return GateCheck(
        name="coverage",
        ok=share <= ALPHA,
        warning=True,
        says=f"`{name}`: {share:.1%} of the numbers in production were never there in calibration",
        fix="" if share <= ALPHA else "calibrate with more rows, or with rows drawn from production",
        where=name,
        because={"unseen": share},
    )
