"""PyTorch as it is: the module itself, in eager mode. What all others are compared with.

Needs:      nothing, built in; the code that declares the module must be there when it is loaded.
Helps:      bf16 helps large batches on processors that multiply it, and costs time on small ones.
Seen:       one row of a small ResNet at 64 by 64, one thread with AVX-512 VNNI and BF16, no AMX: channels-last 1.16x [1.11, 1.17], folded as well
            1.24x [1.22, 1.26], bf16 1.66x [1.63, 1.71]; with AMX bf16 3.1x on a ResNet-18, 0.5 to 0.7x on small CNNs.
Parity:     fp32 is the reference itself; folded it differs by rounding (1e-6).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from netdyno.errors import ArmError
from netdyno.records.deployment import Level, Running
from netdyno.runtimes._base import Call, Exportable, Runtime, Traits, bf16_is_slow_here


@dataclass(frozen=True, slots=True)
class Eager:
    precision: Literal["fp32", "bf16"] = "fp32"
    channels_last: bool = False
    folded: bool = False

    level: ClassVar[Level] = "built in"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 3.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True
    # Its export writes the weights down and runs nothing: no process of its own is needed.
    in_place: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        return None

    def refuses(self, traits: Traits) -> str | None:
        if self.channels_last and not traits.has("Conv2d"):
            return "channels-last is an order of 2-D images; the model has no 2-D convolution"
        if self.folded and not traits.has("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"):
            return "the model has no batch norm that could be folded into a convolution"
        return bf16_is_slow_here(traits) if self.precision == "bf16" else None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        forms = ((False, False), (True, False), (True, True))
        return tuple(cls(precision, order, folded) for precision in ("fp32", "bf16") for order, folded in forms)

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        from netdyno.runtimes import _modules as modules
        from netdyno.targets.folding import pairs

        notes = modules.kept(subject, folder)
        if not self.folded:
            return notes
        found = len(pairs(subject.model))
        if not found:
            raise ArmError("no batch norm stands right behind a convolution whose output nothing else uses")
        return (*notes, f"{found} batch norms are folded into the convolutions before them")

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        from netdyno.runtimes import _modules as modules
        from netdyno.targets.folding import fold

        torch.set_num_threads(running.threads)
        model = modules.module_in(folder)
        model = fold(model) if self.folded else model
        form = {"bf16": self.precision == "bf16", "channels_last": self.channels_last}
        return modules.called(modules.prepared(model, **form), **form)


EXAMPLES = (Eager(), Eager("bf16", channels_last=True), Eager(channels_last=True, folded=True))
