"""torch.export and AOTInductor: the whole model compiled into one library, weights inside, without Python in between.

Needs:      a C++ compiler; int8 needs the package torchao.
Helps:      models of many small layers; bf16 and int8 where the processor multiplies them.
Seen:       one row of a small ResNet at 64 by 64, one thread with AVX-512 VNNI and BF16, no AMX: 2.50x [2.41, 2.52] in fp32, 3.89x
            [3.81, 3.96] in bf16, 5.33x [5.22, 5.52] in int8; eight rows through a package for one: 0.88x, 1.40x and 1.93x.
Parity:     sums run in another order: 120 dB in fp32, 40 to 50 in bf16, 40 in int8. Input checks are always on: without them a package
            answers wrong strides and sizes with garbage.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from netdyno.records.deployment import Level, Running
from netdyno.runtimes._base import Call, Exportable, Runtime, Traits, bf16_is_slow_here, missing, no_compiler, padded

if TYPE_CHECKING:
    from torch import nn

QUANTISER = ("torchao",)


@dataclass(frozen=True, slots=True)
class AotInductor:
    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    ignored: tuple[str, ...] = ()  # layers that int8 leaves in float, by their names in the module

    level: ClassVar[Level] = "needs a toolchain"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 60.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True
    kin: ClassVar[str] = "compiled"  # Inductor writes the kernels of both

    def unavailable(self) -> str | None:
        return no_compiler() or (missing(QUANTISER) if self.precision == "int8" else None)

    def refuses(self, traits: Traits) -> str | None:
        if self.precision == "bf16":
            return bf16_is_slow_here(traits)
        if self.precision == "int8" and not traits.calibration:
            return "int8 is set up by calibration data, and none is declared"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return (cls(), cls("bf16"), cls("int8"))

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        from netdyno.runtimes import _modules as modules
        from netdyno.runtimes import _programs as programs

        example = programs.in_bf16(subject.example) if self.precision == "bf16" else subject.example
        notes: list[str] = []
        # One package for each number of rows: with an open one weights are not prepacked, which costs half of the speed.
        sizes = tuple(sorted(subject.batches)) or (1,)
        model = self._model(subject, None, notes) if subject.dynamic else None
        for rows in sizes:
            one = self._model(subject, rows, notes) if model is None else model
            program = programs.program(one, subject, rows, example=example)
            programs.compiled(program, folder / f"{modules.name_for(rows)}.pt2", threads=subject.threads)
        return (*dict.fromkeys(notes), f"compiled for {', '.join(map(str, sizes))} rows; others are padded or split")

    def _model(self, subject: Exportable, rows: int | None, notes: list[str]) -> "nn.Module":
        from netdyno.runtimes import _modules as modules

        if self.precision != "int8":
            return modules.prepared(subject.model, bf16=self.precision == "bf16")
        from netdyno.runtimes import _quantised as quantised

        found = quantised.quantised(subject, rows, self.ignored)
        notes.append(found.says)
        return found.model

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        from netdyno.runtimes import _modules as modules

        os.environ["AOTI_RUNTIME_CHECK_INPUTS"] = "1"  # read once, when the first package runs
        torch.set_num_threads(running.threads)

        def one(path: Path) -> Call:
            # The loader itself: its wrapper in `torch._inductor` imports the whole compiler, which takes seconds.
            package: Any = torch._C._aoti.AOTIModelPackageLoader(str(path), "model", False, 1, -1)
            return modules.called(lambda *tensors: package.run(list(tensors)), bf16=self.precision == "bf16")

        counts = [int(path.stem.removeprefix("rows")) for path in folder.glob("rows*.pt2")]
        return padded(modules.by_rows(folder, "pt2", one), counts)


EXAMPLES = (AotInductor(), AotInductor("bf16"), AotInductor("int8"), AotInductor("int8", ignored=("head",)))
