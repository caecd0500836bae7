"""The module as a graph that torch.export made, run node by node: eager PyTorch that needs none of the module's code.

Needs:      nothing, built in.
Helps:      a package that loads where the source is not; branches that are not taken are gone.
Seen:       one row of a small ResNet at 64 by 64, one thread with AVX-512, no AMX: 0.94x [0.93, 0.95] of eager: each node is a call from Python.
            Loading takes seconds: it imports the compiler.
Parity:     the same operations in the same order: same bits.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from netdyno.records.deployment import Level, Precision, Running
from netdyno.runtimes._base import Call, Exportable, Runtime, Traits


@dataclass(frozen=True, slots=True)
class ExportedProgram:
    precision: ClassVar[Precision] = "fp32"
    level: ClassVar[Level] = "built in"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 4.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        return None

    def refuses(self, traits: Traits) -> str | None:
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return (cls(),)

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        import torch

        from netdyno.runtimes import _modules as modules
        from netdyno.runtimes import _programs as programs

        for rows in modules.sizes(subject):
            program = programs.program(subject.model, subject, rows)
            torch.export.save(program, folder / f"{modules.name_for(rows)}.pt2")
        return ()

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        from netdyno.runtimes import _modules as modules

        torch.set_num_threads(running.threads)
        with suppress(ImportError):  # it brings the operations of a module that was trained for int8
            import torch.ao.quantization.fx._decomposed
        return modules.by_rows(folder, "pt2", lambda path: modules.called(torch.export.load(path).module()))


EXAMPLES = (ExportedProgram(),)
