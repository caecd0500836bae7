"""ExecuTorch: a small interpreter for phones and boards, here with the XNNPACK kernels it uses there.

Needs:      the package `executorch`: pip install 'netdyno[executorch]'.
Helps:      where the model goes to a device that has no Python; here it shows what such a device will answer.
Seen:       no ratio yet; exports take longest of all, about a minute on one core.
Parity:     fp32 sums in another order; int8 leaves 25 to 45 dB.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from netdyno.records.deployment import Level, Running
from netdyno.runtimes import _base as base
from netdyno.runtimes import _counts as counts
from netdyno.runtimes._base import Arrays, Call, Exportable, Runtime, Traits, as_floats

if TYPE_CHECKING:
    from torch.export import ExportedProgram

SUFFIX = ".pte"
# Memory is planned for the largest number of rows; more are answered in parts.
MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Executorch:
    """int8 rounds weights per output channel and activations by the ranges of calibration."""

    precision: Literal["fp32", "int8"] = "fp32"

    level: ClassVar[Level] = "needs a package"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 40.0
    needs: ClassVar[tuple[str, ...]] = ("executorch",)
    imports_torch: ClassVar[bool] = True

    def unavailable(self) -> str | None:
        needs = (*self.needs, "torchao") if self.precision == "int8" else self.needs
        return base.missing(needs, extra="executorch")

    def refuses(self, traits: Traits) -> str | None:
        if self.precision == "int8" and not traits.calibration:
            return "int8 takes its ranges from calibration data, and none is declared"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return cls(), cls("int8")

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        most = max(MOST_ROWS, *subject.batches)
        graphs = counts.graphs(subject, most=most)
        for rows, program in graphs.by_rows.items():
            whole = _quantised(subject, program, rows, most) if self.precision == "int8" else program
            counts.file_for(folder, SUFFIX, rows).write_bytes(_lowered(whole))
        return graphs.notes

    def load(self, folder: Path, running: Running) -> Call:
        from executorch.extension.pybindings import portable_lib

        portable_lib._unsafe_reset_threadpool(
            running.threads
        )  # its only way to say how many threads; safe before the first call
        files = counts.files_in(folder, SUFFIX)
        if counts.ANY in files:
            return _in_parts(*_method(files[counts.ANY]))
        calls = {rows: _method(path)[0] for rows, path in files.items()}
        return base.padded(lambda arrays: calls[len(arrays[0])](arrays), tuple(calls))


def _lowered(program: "ExportedProgram") -> bytes:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    edge = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return bytes(edge.to_executorch().buffer)


def _quantised(subject: Exportable, program: "ExportedProgram", rows: int, most: int) -> "ExportedProgram":
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(program.module(), quantizer)
    # Other numbers of rows than two would do as well, but one is a number that graphs may treat apart.
    for batch in counts.in_batches(subject.calibration(), rows if rows != counts.ANY else 2):
        prepared(*map(torch.from_numpy, batch))
    return counts.exported(subject, convert_pt2e(prepared), rows, most=most)


def _method(path: Path) -> tuple[Call, int]:
    """A call, and the most rows that memory was planned for."""
    import torch
    from executorch.runtime import Runtime as Interpreter

    method = Interpreter.get().load_program(path).load_method("forward")
    if method is None:
        raise RuntimeError(f"`{path.name}` has no method `forward`")

    def call(arrays: Arrays) -> Arrays:
        # Copied: the answers lie in memory that the next call writes to.
        return as_floats(tensor.numpy().copy() for tensor in method.execute(list(map(torch.from_numpy, arrays))))

    return call, int(method.metadata.input_tensor_meta(0).sizes()[0])


def _in_parts(call: Call, most: int) -> Call:
    def any_count(arrays: Arrays) -> Arrays:
        if len(arrays[0]) <= most:
            return call(arrays)
        parts: list[Any] = [
            call(tuple(array[at : at + most] for array in arrays)) for at in range(0, len(arrays[0]), most)
        ]
        return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))

    return any_count


EXAMPLES = (Executorch(), Executorch("int8"))
