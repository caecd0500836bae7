"""What the knobs of optimisation share: kinds of optimizers, and edits of one that was built and has not stepped yet."""

import importlib
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from netdyno.knobs._base import Setup
from netdyno.knobs._layers import fresh
from netdyno.targets.samples import kept_randomness

Edit = Callable[[Any], None]


class Kind(NamedTuple):
    """One optimizer by name. `rate` is where a search begins: the default of its paper or of PyTorch.

    `scaling` is how its rate follows the batch size: an update of plain gradients averages over the batch ("linear"), one that is divided by
    its own size feels only the noise of that average ("sqrt").
    """

    made_by: str  # dotted name of the class
    rate: float
    scaling: str
    settings: dict[str, Any]


# Rates: PyTorch's defaults; 0.1 for SGD as ResNets have it; Lion a tenth of Adam's (Chen 2023).
KINDS: dict[str, Kind] = {
    "adamw": Kind("torch.optim.AdamW", 1e-3, "sqrt", {"weight_decay": 1e-4}),
    "nesterov": Kind("torch.optim.SGD", 0.1, "linear", {"momentum": 0.9, "nesterov": True}),
    "sgd": Kind("torch.optim.SGD", 0.1, "linear", {"momentum": 0.9}),
    "adam": Kind("torch.optim.Adam", 1e-3, "sqrt", {}),
    "nadam": Kind("torch.optim.NAdam", 2e-3, "sqrt", {}),
    "radam": Kind("torch.optim.RAdam", 1e-3, "sqrt", {}),
    "rmsprop": Kind("torch.optim.RMSprop", 1e-3, "sqrt", {}),
    "adagrad": Kind("torch.optim.Adagrad", 1e-2, "sqrt", {}),
    "adamax": Kind("torch.optim.Adamax", 2e-3, "sqrt", {}),
    "adafactor": Kind("torch.optim.Adafactor", 1e-2, "sqrt", {}),
    "lamb": Kind("pytorch_optimizer.Lamb", 1e-3, "sqrt", {}),
    "lion": Kind("pytorch_optimizer.Lion", 1e-4, "sqrt", {}),
    "adamw-8bit": Kind("bitsandbytes.optim.AdamW8bit", 1e-3, "sqrt", {}),
}
# Classes whose update is the gradient itself, as large as it is.
PLAIN = ("SGD", "ASGD")


def unavailable(name: str, *, device: str = "cpu") -> str | None:
    """Why an optimizer cannot be used here, or None."""
    if name not in KINDS:
        return f"`{name}` is none of {', '.join(KINDS)}"
    package = KINDS[name].made_by.partition(".")[0]
    if importlib.util.find_spec(package) is None:
        return f"it needs the package {package.replace('_', '-')}, which is not installed"
    if name.endswith("-8bit") and not device.startswith("cuda"):
        return f"8-bit states run on CUDA devices, and the workload is on `{device}`"
    return None


def made(name: str, parameters: Iterable[Any], rate: float) -> Any:
    """An optimizer of that kind over parameters or groups of them."""
    kind = KINDS[name]
    where, _, what = kind.made_by.rpartition(".")
    return getattr(importlib.import_module(where), what)(parameters, lr=rate, **kind.settings)


def with_optimizer(setup: Setup, edit: Edit) -> Setup:
    """The setup with an edit of each optimizer that it builds."""
    build = setup.optimizer

    def edited(model: nn.Module) -> Any:
        optimizer = build(model)
        edit(optimizer)
        return optimizer

    return replace(setup, optimizer=edited)


def built(setup: Setup) -> Any:
    """An optimizer to look at; the random state stays as it is."""
    with kept_randomness():
        return setup.optimizer(fresh(setup))


def rates(optimizer: Any) -> tuple[float, ...]:
    """The learning rate of each group."""
    return tuple(float(group["lr"]) for group in optimizer.param_groups)


def scale_rates(optimizer: Any, factor: float) -> None:
    """Every rate times `factor`: groups keep their proportions."""
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor


def scaling_of(optimizer: Any) -> str:
    """How its rate follows the batch size: "linear" or "sqrt"."""
    return "linear" if type(optimizer).__name__ in PLAIN else "sqrt"


def decay_matrices(optimizer: Any, value: float) -> None:
    """Decay `value` for all weights that have two dimensions or more, none for the others: biases and the scales of norms.

    A bias does not make a fit less smooth, and a norm's scale has its place at 1 and not at 0.
    """
    for group in list(optimizer.param_groups):
        flat = [weight for weight in group["params"] if weight.ndim < 2]
        group["params"] = [weight for weight in group["params"] if weight.ndim >= 2]
        group["weight_decay"] = value
        if flat:
            others = {name: setting for name, setting in group.items() if name != "params"}
            optimizer.add_param_group({**others, "params": flat, "weight_decay": 0.0})


def momentum_of(optimizer: Any) -> float | None:
    """How much of the last updates the next one keeps (momentum, or beta1); None where there is no such thing."""
    group = optimizer.param_groups[0]
    if "betas" in group:
        return float(group["betas"][0])
    return float(group["momentum"]) if "momentum" in group else None


def set_momentum(optimizer: Any, value: float) -> None:
    """The same, in every group."""
    for group in optimizer.param_groups:
        if "betas" in group:
            group["betas"] = (value, *group["betas"][1:])
        elif "momentum" in group:
            group["momentum"] = value


def shares_of_state(optimizer: Any) -> float:
    """Bytes of its state as a multiple of those of its parameters (ledger A-121). It must have stepped."""
    weights = sum(weight.nbytes for group in optimizer.param_groups for weight in group["params"])
    states = [value for state in optimizer.state.values() if isinstance(state, dict) for value in state.values()]
    kept = sum(value.nbytes for value in states if isinstance(value, Tensor) and value.numel() > 1)
    return kept / weights if weights else 0.0


def gradient_norm(weights: Iterable[Tensor]) -> Tensor:
    """The norm of all gradients together, as clipping sees it."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    return torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
