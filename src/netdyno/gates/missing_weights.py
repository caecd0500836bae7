"""A layer has the weights it was born with, while others were trained.

Looks for:  linear and convolutional layers whose weights and bias fit PyTorch's default initialisation exactly: spread evenly up to its
            bound, and never beyond.
Matters:    `load_state_dict(strict=False)` passes over keys that have another name (a renamed head, a `module.` prefix); the layer then
            answers as on its first day (fault bench P01, P02).
Try:        load with `strict=True` and map the keys that it names.
Not this:   layers that are random on purpose; weights that stay within the bound by weight decay. It stops only where the module also
            answers hardly better than by chance; otherwise it warns.
"""

import math

import torch
from torch import Tensor, nn

from netdyno.gates._base import Candidate, classes, failed, item, names, passed, plural, unseen
from netdyno.gates._specimens import Net, candidate, trained
from netdyno.records.deployment import GateCheck

# Fewer weights look like a draw from anything.
LEAST = 64
# Of n numbers drawn evenly up to a bound the largest lies within 12/n of it, but once in 160,000 draws.
NEAR = 12.0
# A healthy draw fails the test of Kolmogorov and Smirnov once in a thousand layers.
LEVEL = 0.001
# Of the way from the commonest class to a perfect score. A trained classifier with a random head gets there by luck only.
HARDLY = 0.25


@item
def missing_weights(candidate: Candidate) -> GateCheck:
    looked = {name: module for name, module in candidate.model.named_modules() if _looked_at(module)}
    if not looked:
        return unseen(f"no linear or convolutional layer has {LEAST} weights or more")
    fresh = [name for name, module in looked.items() if _fresh(module)]
    because = {"layers": float(len(looked)), "fresh": float(len(fresh))}
    if not fresh:
        return passed(f"the weights of {plural(len(looked), 'layer')} are not those of a new layer", **because)
    skill = _skill(candidate)
    certain = skill is not None and skill < HARDLY
    if skill is not None:
        because["skill"] = skill
    whole = "every layer of the module" if len(fresh) == len(looked) else names(fresh)
    return failed(
        f"{whole} {'has' if len(fresh) in (1, len(looked)) else 'have'} weights as PyTorch initialises them, as if nothing had been loaded"
        + (f", and the module answers with a skill of {skill:.0%}" if skill is not None else ""),
        fix="load the checkpoint with `strict=True`, and map the keys it calls missing or unexpected (a renamed head, a `module.` prefix)",
        where=fresh[0],
        warning=not certain,
        numbers=because,
    )


def _looked_at(module: nn.Module) -> bool:
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    if not isinstance(module, kinds) or isinstance(module, nn.LazyLinear):
        return False
    weight = module._parameters.get("weight")
    return weight is not None and weight.numel() >= LEAST and not hasattr(module, "parametrizations")


def _fresh(module: nn.Module) -> bool:
    weight, bias = module._parameters["weight"], module._parameters.get("bias")
    assert weight is not None
    fan_in, _ = nn.init._calculate_fan_in_and_fan_out(weight)
    bound = 1 / math.sqrt(fan_in)
    if bias is not None:
        largest = float(bias.detach().abs().max())
        if largest > bound * (1 + 1e-6) or largest < bound / 10:
            return False
    return _even(weight.detach().float().reshape(-1), bound)


def _even(weights: Tensor, bound: float) -> bool:
    largest, count = float(weights.abs().max()), len(weights)
    if largest > bound * (1 + 1e-6) or largest < bound * (1 - NEAR / count):
        return False
    from scipy.stats import kstest

    # A large layer has more weights than it takes; spread evenly over the layer they stay a fair sample.
    some = weights[:: max(1, count // 20_000)].numpy() / bound
    return bool(kstest(some, "uniform", args=(-1, 2)).pvalue > LEVEL)


def _skill(candidate: Candidate) -> float | None:
    """How far the module is from always naming the commonest class (0) towards a perfect score (1); None where it is no classifier."""
    found = classes(candidate)
    if found is None:
        return None
    commonest = float(torch.bincount(found.target).max()) / len(found.target)
    accuracy = float((found.decided == found.target).float().mean())
    return (accuracy - commonest) / max(1e-9, 1 - commonest)


def _lost(*layers: str) -> nn.Module:
    model = trained(Net())
    for name in layers:
        model.get_submodule(name).reset_parameters()  # type: ignore[operator]
    return model


SICK = (
    lambda: candidate(_lost("head")),
    lambda: candidate(_lost("head"), validation=None),
    lambda: candidate(_lost("conv", "head")),
)
WELL = (candidate, lambda: candidate(trained(nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), steps=200)))
