"""TorchScript, legacy: a frozen trace. Its makers advise torch.export instead; what still loads it are old services and C++ programs.

Needs:      nothing, built in.
Helps:      less Python per layer; convolutions with prepacked weights where it is optimised after loading.
Seen:       one row of a small ResNet at 64 by 64, one thread with AVX-512 VNNI and BF16, no AMX: 1.38x [1.37, 1.40] optimised, 1.16x
            [1.14, 1.18] not, 1.75x [1.72, 1.81] in bf16.
Parity:     batch norms are folded: 120 dB in fp32. A trace keeps the way its example took, which is noted.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from netdyno.errors import ArmError
from netdyno.records.deployment import Level, Running
from netdyno.runtimes._base import Call, Exportable, Runtime, Traits, bf16_is_slow_here

if TYPE_CHECKING:
    from torch import Tensor, nn

# A number of rows that no example has: a trace in which that of the example stands gives another graph for it.
OTHER_ROWS = 3
# What the tracer only warns of, though such a file answers otherwise than the module.
RANDOM, OTHERWISE = "nondeterministic nodes", "does not match the corresponding output"


@dataclass(frozen=True, slots=True)
class Torchscript:
    precision: Literal["fp32", "bf16"] = "fp32"
    optimised: bool = True

    level: ClassVar[Level] = "built in"
    legacy: ClassVar[bool] = True
    price: ClassVar[float] = 5.0
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        return None

    def refuses(self, traits: Traits) -> str | None:
        return bf16_is_slow_here(traits) if self.precision == "bf16" else None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return (cls(), cls(optimised=False), cls("bf16", optimised=False))

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        from netdyno.runtimes import _modules as modules
        from netdyno.runtimes import _programs as programs

        bf16 = self.precision == "bf16"
        model = modules.prepared(subject.model, bf16=bf16)
        example = programs.in_bf16(subject.example) if bf16 else subject.example
        notes: list[str] = []
        with _quiet(notes):
            for rows in modules.sizes(subject):
                frozen = _frozen(model, modules.sized(example, rows), dynamic=rows is None, bf16=bf16)
                # Saved before it is optimised: packed weights cannot be written, and the file would not load.
                frozen.save(str(folder / f"{modules.name_for(rows)}.ts"))
        if any(RANDOM in note or OTHERWISE in note for note in notes):
            raise ArmError("its trace does not answer as the module does: it is random, or takes other ways")
        return tuple(dict.fromkeys(notes))

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        from netdyno.runtimes import _modules as modules

        torch.set_num_threads(running.threads)

        def one(path: Path) -> Call:
            with _quiet([]):
                module = torch.jit.load(str(path))
                module = torch.jit.optimize_for_inference(module) if self.optimised else module
            return modules.called(module, bf16=self.precision == "bf16")

        return modules.by_rows(folder, "ts", one)


def _frozen(model: "nn.Module", example: "tuple[Tensor, ...]", *, dynamic: bool, bf16: bool) -> Any:
    import torch

    from netdyno.runtimes import _modules as modules

    if isinstance(model, torch.jit.ScriptModule):
        return torch.jit.freeze(model.eval())
    others = [modules.sized(example, rows) for rows in (OTHER_ROWS, 1)] if dynamic else []
    try:
        with torch.no_grad():
            # Two runs in bf16 may take other kernels; a graph that depends on chance or on rows differs by more.
            traced = torch.jit.trace(
                model.eval(),
                example,
                check_inputs=[example, *others],
                check_tolerance=0.1 if bf16 else 1e-3,
                strict=False,
            )
            return torch.jit.freeze(traced)
    except torch.jit._trace.TracingCheckError as error:
        raise ArmError(
            "its trace differs from call to call: it hangs on numbers of rows, on chance, or on values"
        ) from error
    except Exception as error:
        raise modules.refused("it cannot be traced", error) from error


@contextmanager
def _quiet(notes: list[str]) -> Iterator[None]:
    """Silence that TorchScript is deprecated, which `legacy` says, and keep what the tracer warns of as notes."""
    import torch

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*", category=DeprecationWarning)
        yield
    for warning in said:
        if issubclass(warning.category, torch.jit._trace.TracerWarning):
            text = " ".join(str(warning.message).split()).partition(". ")[0]
            notes.append(f"the trace keeps what its example decided: {text}")
        elif not issubclass(warning.category, DeprecationWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


EXAMPLES = (Torchscript(), Torchscript("bf16", optimised=False))
