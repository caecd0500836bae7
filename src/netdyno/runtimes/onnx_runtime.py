"""ONNX Runtime: small, quick to start, the least memory of all, and often the quickest in fp32.

Needs:      the package `onnxruntime` to run; `onnx` and `onnxscript` to export.
Helps:      small networks at batch 1, where what a call costs counts; int8 where convolutions are plain, or products large.
Seen:       CPU time against eager fp32, batch 1, one thread, avx512_vnni without amx, the range of 12 rounds without the extreme at each end: ResNet-18 fp32 2.0 to 2.1x,
            int8 6.1 to 6.3x; a MobileNetV3-S-like fp32 4.0 to 4.4x, int8 2.9 to 3.2x; a 4-layer encoder fp32 2.2x, int8 with ranges of
            each call 4.3 to 4.6x, with ranges from calibration 1.3 to 1.4x.
Parity:     fp32 sums in another order; int8 leaves 30 to 45 dB on trained models.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from netdyno.records.deployment import Level, Running
from netdyno.runtimes import _base as base
from netdyno.runtimes import _counts as counts
from netdyno.runtimes import _onnx as onnx_files
from netdyno.runtimes._base import Arrays, Call, Exportable, Runtime, Traits, as_floats

CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
PRODUCTS = ("MatMul", "Gemm")
# Without VNNI, 8-bit products are summed in pairs in 16 bits and saturate: weights then get 7 bits (ledger B-185).
ADDS_WITHOUT_OVERFLOW = ("avx512_vnni", "avx_vnni", "amx_int8")


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """`scheme` is of int8: "static" rounds activations by ranges seen in calibration, "dynamic" by those of each call.

    `ignored` are names of modules that stay in float.
    """

    precision: Literal["fp32", "int8"] = "fp32"
    scheme: Literal["static", "dynamic"] = "static"
    ignored: tuple[str, ...] = ()

    level: ClassVar[Level] = "needs a package"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 6.0
    needs: ClassVar[tuple[str, ...]] = ("onnx", "onnxruntime", "onnxscript")
    imports_torch: ClassVar[bool] = False
    spins: ClassVar[bool] = True  # waiting threads spin unless told to sleep

    def unavailable(self) -> str | None:
        return base.missing(self.needs)

    def refuses(self, traits: Traits) -> str | None:
        if self.precision != "int8":
            return None
        if self.scheme == "static" and not traits.calibration:
            return "static int8 takes its ranges from calibration data, and none is declared"
        if self.scheme == "dynamic" and traits.has(*CONVOLUTIONS):
            return "ranges found anew in each call pay for matrix products; its integer convolutions are slower than float ones"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return cls(), cls("int8", "dynamic"), cls("int8", "static")

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        graphs = counts.graphs(subject)
        opset = onnx_files.newest_opset(quantised=self.precision == "int8")
        paths = onnx_files.write(subject, graphs, folder, opset=opset)
        if self.precision != "int8":
            return graphs.notes
        return graphs.notes + onnx_files.quantised(paths, self.ignored, self._quantiser(subject))

    def _quantiser(self, subject: Exportable) -> onnx_files.Quantise:
        if self.scheme == "dynamic":
            return lambda source, target, _, excluded: _dynamic(source, target, excluded)
        convolves = any(type(module).__name__ in CONVOLUTIONS for module in subject.model.modules())

        def static(source: Path, target: Path, rows: int, excluded: list[str]) -> None:
            _static(source, target, onnx_files.Reader(subject, rows), excluded, convolves=convolves)

        return static

    def load(self, folder: Path, running: Running) -> Call:
        files = counts.files_in(folder, onnx_files.SUFFIX)
        fixed = running.batches[0] if len(running.batches) == 1 else None
        calls = {rows: _session(path, running, rows=fixed) for rows, path in files.items()}
        if counts.ANY in calls:
            return calls[counts.ANY]
        return base.padded(lambda arrays: calls[len(arrays[0])](arrays), tuple(calls))


def _session(path: Path, running: Running, *, rows: int | None) -> Call:
    """`rows` fixes the dimension that counts them, so that shapes are known before the first call."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = running.threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if running.spinning else "0")
    if rows is not None:
        options.add_free_dimension_override_by_name(onnx_files.ROWS, rows)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def call(arrays: Arrays) -> Arrays:
        return as_floats(session.run(None, dict(zip(names, arrays, strict=True))))

    return call


def _static(source: Path, target: Path, reader: Any, excluded: list[str], *, convolves: bool) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    options: dict[str, Any] = {}
    if convolves:
        # Convolutions round their answers too, so what feeds a layer that stays in float must not.
        excluded = excluded + onnx_files.feeding(source, excluded)
    else:
        # What a product answers stays in float: rounding it too cost 9 dB on an encoder and won no time. Products of two activations
        # (attention) stay whole for the same reason: 1.5 dB.
        options["OpTypesToExcludeOutputQuantization"] = list(PRODUCTS)
        excluded = excluded + onnx_files.of_activations(source)
    quantize_static(
        str(source),
        str(target),
        reader,
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=None if convolves else list(PRODUCTS),
        per_channel=True,
        reduce_range=not set(ADDS_WITHOUT_OVERFLOW) & set(base.processor_flags()),
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=excluded,
        calibrate_method=CalibrationMethod.MinMax,
        extra_options=options,
    )


def _dynamic(source: Path, target: Path, excluded: list[str]) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(
        str(source),
        str(target),
        op_types_to_quantize=[
            "MatMul"
        ],  # a Gemm becomes one; integer embeddings and convolutions cost more than they save
        per_channel=True,
        reduce_range=not set(ADDS_WITHOUT_OVERFLOW) & set(base.processor_flags()),
        weight_type=QuantType.QInt8,
        nodes_to_exclude=excluded,
    )


EXAMPLES = (OnnxRuntime(), OnnxRuntime("int8"), OnnxRuntime("int8", "dynamic"))
