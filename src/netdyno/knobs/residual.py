"""Let each block add to its input instead of replacing it.

Helps:      deep networks: the gradient reaches early layers along the sums.
Costs:      one addition per block.
Forms:      "v1" adds, then ReLU (He 2015); "pre-activation" normalises and bends before the layer, and nothing stands on the sum
            (He 2016); "after-relu" adds what has passed the ReLU: its sums can only grow, and it was the worst of five in He 2016.
            All three are tried, none is believed.
Not this:   blocks that change the shape of their input; models that do not list their layers in a Sequential.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from netdyno.knobs._base import Knob, Setup
from netdyno.knobs._layers import Activation, Convolution, Norm, fresh, ran, with_model
from netdyno.records.study import Stage

FORMS = ("v1", "pre-activation", "after-relu")


class Added(nn.Module):
    """A layer, its norm and its activation beside a shortcut, in one of the three forms."""

    def __init__(self, form: str, layer: nn.Module, norm: nn.Module, bend: nn.Module) -> None:
        super().__init__()
        self.form, self.layer, self.norm, self.bend = form, layer, norm, bend

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "v1":
            return self.bend(x + self.norm(self.layer(x)))
        if self.form == "pre-activation":
            return x + self.layer(self.bend(self.norm(x)))
        return x + self.bend(self.norm(self.layer(x)))


@dataclass(frozen=True, slots=True)
class Residual:
    """`form`: "v1", "pre-activation" or "after-relu"."""

    form: str = "v1"

    stage: ClassVar[Stage] = "arch"
    reason: ClassVar[str] = "gives signals and gradients a way past each block"
    asks: ClassVar[str] = "should blocks add to their input, and where?"
    effort_min: ClassVar[float] = 20.0
    order: ClassVar[int] = 18  # after norms and activations were swapped: it takes them as they are

    def refuses(self, setup: Setup) -> str | None:
        if self.form not in FORMS:
            return f"`{self.form}` is none of {', '.join(FORMS)}"
        if not any(_runs(fresh(setup))):
            return "no Sequential of the model holds a layer of equal width with an activation behind it"
        return None if _places(setup) else "no block gives back the shape it was given"

    def settings(self, setup: Setup) -> tuple[Knob, ...]:
        return tuple(Residual(form) for form in FORMS)

    def turned(self, setup: Setup) -> Setup:
        names = _places(setup)
        return with_model(setup, lambda model: wrapped(model, self.form, names))

    def code(self) -> str:
        sum_of = {
            "v1": "self.relu(x + self.norm(self.conv(x)))",
            "pre-activation": "x + self.conv(self.relu(self.norm(x)))",
            "after-relu": "x + self.relu(self.norm(self.conv(x)))",
        }[self.form]
        return f"def forward(self, x):\n    return {sum_of}"


class Run(NamedTuple):
    """Neighbours in a Sequential: a layer, perhaps its norm, and its activation. `at` is where the layer stands."""

    home: nn.Sequential
    at: int
    layer: nn.Module
    norm: nn.Module | None
    bend: nn.Module


def wrapped(model: nn.Module, form: str, names: tuple[str, ...] | None = None) -> nn.Module:
    """The model with its blocks beside shortcuts; `names` are those of the layers to wrap, None for all that keep their width."""
    layers = {module: name for name, module in model.named_modules()}
    for run in list(_runs(model)):
        if names is None or layers[run.layer] in names:
            parts = list(run.home)
            length = 2 if run.norm is None else 3
            block = Added(form, run.layer, run.norm or nn.Identity(), run.bend)
            # Places stay where they are, so that other runs of the same Sequential are still found.
            parts[run.at : run.at + length] = [block, *[nn.Identity()] * (length - 1)]
            for at, part in enumerate(parts):
                run.home[at] = part
    return model


def _runs(model: nn.Module) -> Iterator[Run]:
    """Every layer in a Sequential whose inputs are as many as its outputs, with an activation behind it."""
    for home in model.modules():
        if not isinstance(home, nn.Sequential):
            continue
        parts = list(home)
        for at, layer in enumerate(parts[:-1]):
            if not _square(layer):
                continue
            norm = parts[at + 1] if isinstance(parts[at + 1], Norm) else None
            bend = parts[at + 2] if norm is not None and at + 2 < len(parts) else parts[at + 1]
            if isinstance(bend, Activation):
                yield Run(home, at, layer, norm, bend)


def _square(layer: Any) -> bool:
    if isinstance(layer, nn.Linear):
        return layer.in_features == layer.out_features
    return isinstance(layer, Convolution) and layer.in_channels == layer.out_channels


def _places(setup: Setup) -> tuple[str, ...]:
    """The names of the layers that give back the shape they were given."""
    keeping = {name for name, _, given, got in ran(setup, (nn.Linear, *Convolution.__args__)) if given == got}
    model = fresh(setup)
    names = {module: name for name, module in model.named_modules()}
    return tuple(names[run.layer] for run in _runs(model) if names[run.layer] in keeping)
