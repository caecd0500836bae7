"""PyTorch as it is: the module itself, in eager mode. What all others are compared with.

Needs:      nothing, built in; the code that declares the module must be there when it is loaded.
Helps:      bf16 helps large batches on processors that multiply it, and costs time on small ones.
Seen:       bf16 3.1x on a ResNet-18 at batch 1, 0.5 to 0.7x on small CNNs.
Parity:     fp32 is the reference itself.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from netdyno.records.deployment import Level, Running
from netdyno.runtimes._base import Arrays, Call, Exportable, Runtime, Traits, as_floats

if TYPE_CHECKING:
    from torch import nn

SOURCE, WEIGHTS = "source.json", "weights.pt"


@dataclass(frozen=True, slots=True)
class Eager:
    precision: Literal["fp32", "bf16"] = "fp32"
    channels_last: bool = False

    level: ClassVar[Level] = "built in"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 3.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        return None

    def refuses(self, traits: Traits) -> str | None:
        if self.channels_last and not traits.has("Conv2d"):
            return "channels-last is an order of 2-D images; the model has no 2-D convolution"
        if self.precision == "bf16" and not {"avx512_bf16", "amx_bf16"} & set(traits.flags):
            return "this processor does not multiply bf16"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return tuple(cls(precision, order) for precision in ("fp32", "bf16") for order in (False, True))

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        import torch

        (folder / SOURCE).write_text(json.dumps({"reference": subject.reference}))
        torch.save(subject.model.state_dict(), folder / WEIGHTS)
        return (f"loading it needs the code of `{subject.reference}`",)

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        torch.set_num_threads(running.threads)
        return called(module_in(folder), bf16=self.precision == "bf16", channels_last=self.channels_last)


def module_in(folder: Path) -> "nn.Module":
    """The module of an eager artefact, with the weights that were exported, in eval mode."""
    import torch

    from netdyno.targets import release as releases

    release = releases.load(json.loads((folder / SOURCE).read_text())["reference"])
    model = release.module().eval().requires_grad_(requires_grad=False)
    model.load_state_dict(torch.load(folder / WEIGHTS, weights_only=True))
    return model


def called(model: "nn.Module", *, bf16: bool, channels_last: bool) -> Call:
    """A module as a call of arrays: without gradients, its floating-point inputs cast where the weights are."""
    import torch

    if bf16:
        model = model.to(torch.bfloat16)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def placed(array: Any) -> Any:
        tensor = torch.from_numpy(array)
        if bf16 and tensor.is_floating_point():
            tensor = tensor.to(torch.bfloat16)
        return tensor.to(memory_format=torch.channels_last) if channels_last and tensor.dim() == 4 else tensor

    def call(arrays: Arrays) -> Arrays:
        with torch.inference_mode():
            return as_floats(answers(model(*map(placed, arrays))))

    return call


def answers(output: Any) -> list[Any]:
    """The tensors of whatever a module gives, in the order in which PyTorch flattens it, as arrays."""
    from torch import Tensor
    from torch.utils import _pytree as pytree

    leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return [leaf.float().numpy() if leaf.is_floating_point() else leaf.numpy() for leaf in leaves]


EXAMPLES = (Eager(), Eager("bf16", channels_last=True))
