"""TensorRT: engines built for one kind of NVIDIA device, for one version of it, and for the shapes they are told.

Needs:      an NVIDIA GPU and the package `tensorrt` (10 or later); `onnx`, `onnxruntime` and `onnxscript` to export.
Helps:      fp16 and int8 on devices with tensor cores; small batches, where launches cost more than products.
Seen:       nothing yet: this machine has no GPU. Its tests are marked `gpu`.
Parity:     fp32 may round products to TF32; fp16 leaves 55 to 70 dB; int8 is that of the Q/DQ nodes in the ONNX file.
"""

import json
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from netdyno.records.deployment import Level, Running
from netdyno.runtimes import _base as base
from netdyno.runtimes import _counts as counts
from netdyno.runtimes import _onnx as onnx_files
from netdyno.runtimes import _trtexec as trtexec
from netdyno.runtimes._base import Arrays, Call, Exportable, Runtime, Traits, as_floats

if TYPE_CHECKING:
    from torch import nn

ENGINE, MADE = ".plan", "made.json"
CONTROLS = ("/dev/nvidiactl", "/dev/nvhost-gpu")  # the driver's, on servers and on Jetson boards
WORKSPACE_MIB = 2048
# Quantised operators; the rest is fused around them.
ROUNDED = ("Conv", "ConvTranspose", "MatMul", "Gemm")


@dataclass(frozen=True, slots=True)
class Tensorrt:
    """The ONNX file says the precision: networks are strongly typed, which is the only kind from version 11 on.

    `ignored` are names of modules that int8 leaves alone.
    """

    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    ignored: tuple[str, ...] = ()

    level: ClassVar[Level] = "needs hardware"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 60.0
    needs: ClassVar[tuple[str, ...]] = ("tensorrt", "onnx", "onnxruntime", "onnxscript")
    imports_torch: ClassVar[bool] = True  # its tensors hold what lies on the device

    def unavailable(self) -> str | None:
        absent = [name for name in self.needs if base._absent(name)]
        device = any(Path(control).exists() for control in CONTROLS)
        if device and not absent:
            return None
        wanted = [] if device else ["an NVIDIA GPU"]
        wanted += [f"the package `{name}`" for name in absent]
        fix = f": pip install {' '.join(absent)}" if absent else ""
        return f"it needs {' and '.join(wanted)}{fix}"

    def refuses(self, traits: Traits) -> str | None:
        if self.precision == "int8" and not traits.calibration:
            return "int8 takes its ranges from calibration data, and none is declared"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return cls(), cls("fp16"), cls("int8")

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        graphs = counts.graphs(subject, _in_half(subject.model) if self.precision == "fp16" else None)
        notes = graphs.notes
        with tempfile.TemporaryDirectory() as aside:
            opset = onnx_files.newest_opset(quantised=True)
            paths = onnx_files.write(subject, graphs, Path(aside), opset=opset)
            if self.precision == "int8":
                notes += onnx_files.quantised(paths, self.ignored, _quantiser(subject))
            for rows, path in paths.items():
                plan = built(path, profiles(subject) if rows == counts.ANY else {})
                counts.file_for(folder, ENGINE, rows).write_bytes(plan)
        (folder / MADE).write_text(json.dumps(_here()))
        return notes

    def load(self, folder: Path, running: Running) -> Call:
        version, sm = json.loads((folder / MADE).read_text())
        now, device = _here()
        says = trtexec.elsewhere(((version[0], version[1]), sm), ((now[0], now[1]), device))
        if says is not None:
            raise RuntimeError(f"cannot load the engine: {says}")
        calls = {rows: _engine(path) for rows, path in counts.files_in(folder, ENGINE).items()}
        if counts.ANY in calls:
            return calls[counts.ANY]
        return base.padded(lambda arrays: calls[len(arrays[0])](arrays), tuple(calls))


def profiles(subject: Exportable) -> dict[str, trtexec.Profile]:
    """From one row to the most that are allowed, tuned for the number that is served first. Raises RuntimeError for open lengths."""
    found = {}
    for port in subject.signature.inputs:
        if None in port.shape:
            raise RuntimeError(
                f"`{port.name}` has an open length: an engine must be told the least, best and most of it"
            )
        shape = tuple(length for length in port.shape if length is not None)
        sizes = (1, subject.batches[0], max(subject.batches))
        found[port.name] = trtexec.Profile(*((rows, *shape) for rows in sizes))
    return found


def built(path: Path, shapes: Mapping[str, trtexec.Profile], *, workspace_mib: int = WORKSPACE_MIB) -> bytes:
    """The engine for an ONNX file. Raises RuntimeError with what the parser or the builder says, and for a device it does not build for."""
    import tensorrt as trt

    version, sm = _here()
    says = trtexec.refused((version[0], version[1]), sm)
    if says is not None:
        raise RuntimeError(says)
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)  # the only kind from 11 on
    network = builder.create_network(0 if typed is None else 1 << int(typed))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(path.read_bytes()):
        raise RuntimeError("; ".join(str(parser.get_error(at)) for at in range(parser.num_errors))[:500])
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace_mib << 20)
    if shapes:
        profile = builder.create_optimization_profile()
        for name, lengths in shapes.items():
            profile.set_shape(name, lengths.least, lengths.best, lengths.most)
        config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT built no engine; what it printed says why")
    return bytes(plan)


def _here() -> tuple[tuple[int, int], int]:
    """The version of TensorRT, and the device's compute capability times ten."""
    import tensorrt as trt
    import torch

    major, minor = (int(part) for part in trt.__version__.split(".")[:2])
    high, low = torch.cuda.get_device_capability()
    return (major, minor), high * 10 + low


def _engine(path: Path) -> Call:
    """The execution context is asked, on a stream of its own; the answers are read when the stream is done (ledger A-276)."""
    import tensorrt as trt
    import torch

    engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(path.read_bytes())
    if engine is None:
        raise RuntimeError("TensorRT cannot read the engine; what it printed says why")
    context = engine.create_execution_context()
    stream = torch.cuda.Stream()  # torch makes streams that do not wait for the default one
    names = [engine.get_tensor_name(at) for at in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    outputs = [name for name in names if name not in inputs]
    kinds = {name: getattr(torch, trt.nptype(engine.get_tensor_dtype(name)).__name__) for name in outputs}
    turn = threading.Lock()

    def call(arrays: Arrays) -> Arrays:
        with turn, torch.cuda.stream(stream):
            placed = [torch.from_numpy(array).cuda() for array in arrays]
            for name, tensor in zip(inputs, placed, strict=True):
                context.set_input_shape(name, tuple(tensor.shape))
                context.set_tensor_address(name, tensor.data_ptr())
            found = [
                torch.empty(tuple(context.get_tensor_shape(name)), dtype=kinds[name], device="cuda") for name in outputs
            ]
            for name, tensor in zip(outputs, found, strict=True):
                context.set_tensor_address(name, tensor.data_ptr())
            if not context.execute_async_v3(stream.cuda_stream):
                raise RuntimeError("TensorRT did not run the engine; what it printed says why")
            stream.synchronize()
            return as_floats(tensor.cpu().numpy() for tensor in found)

    return call


def _in_half(model: "nn.Module") -> "nn.Module":
    """The model in fp16, which takes and gives float32."""
    import copy

    import torch
    from torch.utils import _pytree as pytree

    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = copy.deepcopy(model).half()

        def forward(self, *inputs: Any) -> Any:
            answers = self.model(*(one.half() if one.is_floating_point() else one for one in inputs))
            return pytree.tree_map_only(
                torch.Tensor, lambda one: one.float() if one.is_floating_point() else one, answers
            )

    return Half().eval()


def _quantiser(subject: Exportable) -> onnx_files.Quantise:
    """Q/DQ nodes as TensorRT takes them: all around zero, biases in float."""

    def static(source: Path, target: Path, rows: int, excluded: list[str]) -> None:
        from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

        quantize_static(
            str(source),
            str(target),
            onnx_files.Reader(subject, rows),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=list(ROUNDED),
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=excluded,
            calibrate_method=CalibrationMethod.MinMax,
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                "QuantizeBias": False,
                "OpTypesToExcludeOutputQuantization": list(ROUNDED),
            },
        )

    return static


EXAMPLES = (Tensorrt(), Tensorrt("fp16"), Tensorrt("int8"))
