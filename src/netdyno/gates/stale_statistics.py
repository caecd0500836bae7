"""The running statistics of BatchNorm are not those of the data: recalibrated ones score better.

Looks for:  validation rows that are answered right, and not before, once the statistics are taken anew from the calibration data;
            proven by a paired test.
Matters:    a tiny momentum, tiny batches, validation data in training mode or another domain leave statistics that cost accuracy
            although every weight is right.
Try:        recalibrate the statistics on training data before shipping.
Not this:   statistics that were never learned at all (see `batchnorm-statistics`); a few rows that change by chance.
"""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from netdyno.gates._base import Candidate, failed, item, passed, scored, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck
from netdyno.stats.proportions import mcnemar
from netdyno.stats.spread import t_interval

# A healthy module gains nothing that chance would not give once in a thousand modules, and less than this share of the rows.
CHANCE, WORTH = 0.001, 0.02


@item
def stale_statistics(candidate: Candidate) -> GateCheck:
    model = candidate.model.eval()
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm) and module.running_var is not None]
    if not layers:
        return passed("no layer has running statistics")
    data = candidate.calibration
    if data is None or candidate.scored is None:
        return unseen("it takes calibration data, and validation data with targets")
    before = candidate.scored.right
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
        layer.train()
    with torch.no_grad():
        for inputs, _ in candidate.batches(data):
            if len(inputs[0]) > 1:
                model(*inputs)
    after = scored(candidate)
    assert after is not None
    gain = float((after.right - before).mean())
    because = {"before": float(before.mean()), "after": float(after.right.mean()), "rows": float(len(before))}
    if not _better(before, after.right, gain):
        return passed("statistics taken anew from the calibration data score no better", **because)
    return failed(
        f"with the running statistics taken anew from the calibration data, quality on {len(before)} validation rows goes from "
        f"{before.mean():.4g} to {after.right.mean():.4g}",
        fix="recalibrate the running statistics on training data (netdyno.aftercare), and look at momentum, batch size and the mode "
        "of evaluation in training",
        numbers=because,
    )


def _better(before: torch.Tensor, after: torch.Tensor, gain: float) -> bool:
    values = set(torch.cat((before, after)).unique().tolist())
    if values <= {0.0, 1.0}:
        lost, won = int(((before == 1) & (after == 0)).sum()), int(((before == 0) & (after == 1)).sum())
        return gain >= WORTH and mcnemar(lost, won) < CHANCE
    change = t_interval((after - before).tolist(), 1 - CHANCE, unbounded=1e300)
    return change.low > 0 and gain >= WORTH * float(before.abs().mean())


class _Far(Net):
    def forward(self, x: Tensor) -> Tensor:
        return torch.Tensor(super().forward(10 * x + 60))


def _slow() -> nn.Module:
    """Trained with a momentum at which the statistics have not come along with inputs far from 0 and 1."""
    return trained(_Far(momentum=1e-3))


def _other_domain() -> nn.Module:
    model = trained(Net())
    mean, var = dict(model.norm.named_buffers())["running_mean"], dict(model.norm.named_buffers())["running_var"]
    mean += 3 * var.sqrt() * torch.tensor([1.0, -1.0] * 4)
    return model


SICK = (lambda: candidate(_slow()), lambda: candidate(_other_domain()))
WELL = (candidate, lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)))))
