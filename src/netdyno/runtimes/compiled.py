"""torch.compile with frozen weights: kernels are written, compiled and fused when it is loaded.

Needs:      a C++ compiler and Python's headers; the code that declares the module must be there when it is loaded.
Helps:      fused element-wise work, convolutions with prepacked weights, bf16 without casts between layers.
Seen:       one row of a small ResNet at 64 by 64, one thread with AVX-512 VNNI and BF16, no AMX: 1.86x [1.79, 1.90] in fp32, 2.50x [2.40, 2.60]
            in bf16, channels-last as well 2.64x [2.59, 2.69]; any number of rows, at eight: 1.10x, 1.99x, 2.05x. Loading took minutes on busy cores.
Parity:     sums run in another order: 120 dB in fp32; bf16 keeps eight bits, 40 to 50 dB.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from netdyno.records.deployment import Level, Running
from netdyno.runtimes._base import Call, Exportable, Runtime, Traits, bf16_is_slow_here, no_compiler, no_headers


@dataclass(frozen=True, slots=True)
class Compiled:
    precision: Literal["fp32", "bf16"] = "fp32"
    mode: Literal["default", "max-autotune-no-cudagraphs"] = "default"
    channels_last: bool = False

    level: ClassVar[Level] = "needs a toolchain"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 30.0  # paid at every load: PyTorch caches no graph with frozen weights
    needs: ClassVar[tuple[str, ...]] = ()
    imports_torch: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        return no_compiler() or no_headers()

    def refuses(self, traits: Traits) -> str | None:
        if self.channels_last and not traits.has("Conv2d"):
            return "channels-last is an order of 2-D images; the model has no 2-D convolution"
        return bf16_is_slow_here(traits) if self.precision == "bf16" else None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return (cls(), cls("bf16"), cls("bf16", mode="max-autotune-no-cudagraphs"))

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        from netdyno.runtimes import _modules as modules

        return modules.kept(subject, folder)

    def load(self, folder: Path, running: Running) -> Call:
        import torch

        from netdyno.runtimes import _modules as modules

        torch.set_num_threads(running.threads)
        form = {"bf16": self.precision == "bf16", "channels_last": self.channels_last}
        model = modules.prepared(modules.module_in(folder), **form)
        # Beyond the limit PyTorch goes back to eager without a word.
        torch._dynamo.config.recompile_limit = 8 + len(running.batches)
        options = torch._inductor.list_mode_options(self.mode)
        compiled = torch.compile(model, dynamic=False if running.batches else None, options=options)
        call = modules.called(compiled, dynamic=not running.batches, **form)
        held = tuple(torch.from_numpy(array) for array in modules.rows_in(folder))
        # As an option of `torch.compile` freezing is not seen by Dynamo, and weights stay unpacked: half of the speed.
        with torch._inductor.config.patch(freezing=True, compile_threads=running.threads):
            # One row is compiled by itself: it is what a single stream asks for.
            for rows in running.batches or (1, modules.KEPT_ROWS):
                call(tuple(tensor.numpy() for tensor in modules.sized(held, rows)))
        return call


EXAMPLES = (Compiled(), Compiled("bf16"))
