"""A normalisation layer's running statistics were never learned, are not finite, or lie below what its epsilon covers.

Looks for:  running mean 0 and variance 1 in every channel (never trained, or a momentum of 0), numbers that are none, and variances
            below epsilon in channels that do vary on real rows.
Matters:    in eval mode these numbers normalise everything: other ones than those of the data ruin the answers (ledger A-243, B-159).
Try:        train on, or recalibrate the statistics on training data; a momentum above 0.
Not this:   channels that are dead and stay so: one over the root of epsilon times nothing is nothing. Statistics that were learned on
            other data (see `stale-statistics`).
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from netdyno.gates._base import Candidate, answers, failed, item, names, passed
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

# A dead channel that comes alive beyond so many of its standard deviations is amplified a hundredfold and more.
ALIVE = 10.0


class Channels(NamedTuple):
    """What was seen of one layer: channels whose variance is below epsilon, and how far they go, in their own deviations."""

    dead: int
    reach: float


@item
def batchnorm_statistics(candidate: Candidate) -> GateCheck:
    model = candidate.model.eval()
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, _NormBase) and module.running_mean is not None and module.running_var is not None
    }
    if not layers:
        return passed("no layer has running statistics")
    broken = [name for name, layer in layers.items() if not _finite(layer)]
    if broken:
        return failed(
            f"the running statistics of {names(broken)} are not finite",
            fix="find the batch that brought NaN into training, go back to a checkpoint before it, and recalibrate the statistics",
            where=broken[0],
            layers=float(len(broken)),
        )
    fresh = [name for name, layer in layers.items() if _fresh(layer)]
    if fresh:
        seen = max(int(layers[name].num_batches_tracked or 0) for name in fresh)
        why = (
            "no batch was ever seen"
            if not seen
            else f"{seen} batches were seen with a momentum of {layers[fresh[0]].momentum}"
        )
        return failed(
            f"the running statistics of {names(fresh)} are those of a new layer, mean 0 and variance 1: {why}",
            fix="load the buffers of the checkpoint with the weights, train with a momentum above 0, or recalibrate on training data",
            where=fresh[0],
            layers=float(len(fresh)),
            batches=float(seen),
        )
    seen_of = _reach(model, layers, candidate)
    alive = [name for name, channels in seen_of.items() if channels.reach > ALIVE]
    least = min(float(layer.running_var.min()) for layer in layers.values())  # type: ignore[union-attr]
    if alive:
        worst = max(alive, key=lambda name: seen_of[name].reach)
        return failed(
            f"`{worst}` has {seen_of[worst].dead} channels whose variance is below its epsilon, and on real rows they reach "
            f"{seen_of[worst].reach:.0f} of their deviations",
            fix="recalibrate the running statistics on training data, or find why these channels were still in training",
            where=worst,
            least=least,
            reach=seen_of[worst].reach,
        )
    dead = sum(channels.dead for channels in seen_of.values())
    if dead:
        return failed(
            f"{dead} channels have a variance below epsilon: they are dead, here and in training",
            fix="nothing breaks; they can be pruned. If a layer has many, look for dead units in training",
            where=next(name for name, channels in seen_of.items() if channels.dead),
            warning=True,
            least=least,
            channels=float(dead),
        )
    return passed(f"the running statistics of {len(layers)} layers are learned and above epsilon", least=least)


def _finite(layer: _NormBase) -> bool:
    return bool(layer.running_mean.isfinite().all() and layer.running_var.isfinite().all())  # type: ignore[union-attr]


def _fresh(layer: _NormBase) -> bool:
    return bool((layer.running_mean == 0).all() and (layer.running_var == 1).all())  # type: ignore[union-attr]


def _reach(model: nn.Module, layers: dict[str, _NormBase], candidate: Candidate) -> dict[str, Channels]:
    """How far the channels below epsilon go on real rows."""
    found: dict[str, Channels] = {}

    def hook(name: str) -> object:
        def look(layer: _NormBase, inputs: tuple[Tensor, ...]) -> None:
            assert layer.running_var is not None
            assert layer.running_mean is not None
            dead = layer.running_var <= layer.eps
            if not bool(dead.any()):
                return
            x = inputs[0].detach()
            axes = [axis for axis in range(x.dim()) if axis != 1]
            away = (x - layer.running_mean.view(-1, *[1] * (x.dim() - 2))).square().mean(axes).sqrt()
            reach = (away / (layer.running_var + layer.eps).sqrt())[dead]
            found[name] = Channels(int(dead.sum()), float(reach.max()))

        return look

    for name, layer in layers.items():
        layer.register_forward_pre_hook(hook(name))  # type: ignore[arg-type]  # taken off with everything else
    answers(model, candidate.rows)
    return found


def _with(change: str, *, channels: int = 8) -> Net:
    model = trained(Net())
    with torch.no_grad():
        if change == "new":
            model.norm.reset_running_stats()
        elif change == "low":
            model.norm.running_var[:channels] = 1e-9  # type: ignore[index]
        elif change == "nan":
            model.norm.running_mean[0] = float("nan")  # type: ignore[index]
        elif change == "dead":
            model.conv.weight[0] = 0
            model.conv.bias[0] = 0  # type: ignore[index]
            model.norm.running_mean[0], model.norm.running_var[0] = 0.0, 1e-12  # type: ignore[index]
    return model


SICK = (
    lambda: candidate(_with("new")),
    lambda: candidate(_with("low")),
    lambda: candidate(_with("low", channels=1)),
    lambda: candidate(_with("nan")),
    lambda: candidate(trained(Net(momentum=0.0))),
)
# A dead channel is only a warning.
WELL = (
    candidate,
    lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))),
    lambda: candidate(_with("dead")),
)
