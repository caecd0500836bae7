"""OpenVINO: for processors of its maker mostly the quickest; in bf16 where they multiply it, in int8 where convolutions rule.

Needs:      the package `openvino` to run; for int8 `nncf` to export.
Helps:      almost any network; bf16 from layers of some width on, int8 for plain convolutions.
Seen:       CPU time against eager fp32, batch 1, one thread, avx512_vnni and avx512_bf16 without amx, the range of 12 rounds without the extreme at each end: ResNet-18
            fp32 2.0x, bf16 3.6 to 3.8x, int8 6.4 to 6.8x; a MobileNetV3-S-like 3.4 to 3.9x, 4.9 to 6.0x, 4.3 to 5.3x; a 4-layer encoder
            2.4 to 2.5x, 3.8 to 4.1x, 5.1 to 5.3x, the last at 7 dB. With amx int8 gave 18 to 20x on the ResNet-18.
Parity:     fp32 sums in another order; bf16 leaves 45 to 60 dB, int8 35 to 55, and for some encoders 8: look at the accuracy.
"""

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from netdyno.records.deployment import Level, Running, Signature
from netdyno.runtimes import _base as base
from netdyno.runtimes import _counts as counts
from netdyno.runtimes._base import Arrays, Call, Exportable, Runtime, Traits, as_floats

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

SUFFIX = ".xml"
# What computes nothing, so a quantiser cannot be told to leave it alone.
GIVEN = ("Constant", "Parameter", "Result")
ROWS_AT_ONCE = 1  # ranges of activations are averaged over samples, so what a sample is must not change with the batch


@dataclass(frozen=True, slots=True)
class Openvino:
    """`preset` is of int8: "performance" rounds activations symmetrically, "mixed" those that are not symmetric by an offset.

    `ignored` are names of modules that stay in float.
    """

    precision: Literal["fp32", "bf16", "int8"] = "fp32"
    preset: Literal["performance", "mixed"] = "performance"
    ignored: tuple[str, ...] = ()

    level: ClassVar[Level] = "needs a package"
    legacy: ClassVar[bool] = False
    price: ClassVar[float] = 6.0
    needs: ClassVar[tuple[str, ...]] = ("openvino",)
    imports_torch: ClassVar[bool] = False

    def unavailable(self) -> str | None:
        return base.missing((*self.needs, "nncf") if self.precision == "int8" else self.needs)

    def refuses(self, traits: Traits) -> str | None:
        if self.precision == "bf16" and not {"avx512_bf16", "amx_bf16"} & set(traits.flags):
            return "this processor does not multiply bf16"
        if self.precision == "int8" and not traits.calibration:
            return "int8 takes its ranges from calibration data, and none is declared"
        return None

    @classmethod
    def variants(cls, traits: Traits) -> tuple[Runtime, ...]:
        return cls(), cls("bf16"), cls("int8"), cls("int8", "mixed")

    @property
    def gentler(self) -> "Openvino | None":
        """The same precision, no quicker and dearer to build than needed, which loses less: for where this one loses too much."""
        return replace(self, preset="mixed") if (self.precision, self.preset) == ("int8", "performance") else None

    def export(self, subject: Exportable, folder: Path) -> tuple[str, ...]:
        _reports_to_nobody()
        graphs = counts.graphs(subject, _folded(subject) if self.ignored else None)
        notes = graphs.notes
        for rows, program in graphs.by_rows.items():
            model, names = _converted(subject.signature, program, rows, self.ignored)
            if self.precision == "int8":
                model = _quantised(subject, model, rows, names, preset=self.preset)
            _save(model, counts.file_for(folder, SUFFIX, rows))
            lost = [module for module in self.ignored if not names[module]]
            notes += tuple(f"no node comes from `{module}`: nothing to keep in float" for module in lost)
        return tuple(dict.fromkeys(notes))

    def load(self, folder: Path, running: Running) -> Call:
        files = counts.files_in(folder, SUFFIX)
        if counts.ANY not in files:
            fixed = {rows: self._compiled(path, running, None) for rows, path in files.items()}
        elif not running.batches:
            return self._compiled(files[counts.ANY], running, None)
        else:
            fixed = {rows: self._compiled(files[counts.ANY], running, rows) for rows in running.batches}
        return base.padded(lambda arrays: fixed[len(arrays[0])](arrays), tuple(fixed))

    def _compiled(self, path: Path, running: Running, rows: int | None) -> Call:
        """`rows` fixes the dimension that counts them, for which it compiles quicker code."""
        import openvino as ov

        core = ov.Core()
        model = core.read_model(path)
        if rows is not None:
            model.reshape({port: [rows, *list(port.partial_shape)[1:]] for port in model.inputs})
        compiled = core.compile_model(model, "CPU", self._config(running))
        return _asked(compiled)

    def _config(self, running: Running) -> dict[str, Any]:
        # Left to itself it computes fp32 models in bf16 where the processor can: fp32 must mean fp32.
        bf16 = self.precision == "bf16"
        return {
            "INFERENCE_PRECISION_HINT": "bf16" if bf16 else "f32",
            "EXECUTION_MODE_HINT": "PERFORMANCE" if bf16 else "ACCURACY",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": running.threads,
            "NUM_STREAMS": 1,
            # Pinned threads of two processes share the first core while others idle.
            "ENABLE_CPU_PINNING": False,
        }


def _asked(compiled: Any) -> Call:
    """One request is used again and again; callers from several threads take turns. Inputs are read where they lie."""
    request = compiled.create_infer_request()
    turn = threading.Lock()
    outputs = len(compiled.outputs)

    def call(arrays: Arrays) -> Arrays:
        with turn:
            found = request.infer(list(arrays), share_inputs=True, share_outputs=False)
            return as_floats(found[at] for at in range(outputs))

    return call


def _reports_to_nobody() -> None:
    """Its converter and quantiser report use to their makers unless this package cannot be imported."""
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]


def _folded(subject: Exportable) -> "nn.Module":
    """With batch norms folded into convolutions where a symbolic trace shows them.

    Conversion folds them too, but leaves a convolution without its name, and then it cannot be kept in float.
    """
    from torch.fx.experimental.optimization import fuse

    try:
        return fuse(subject.model)
    except Exception:
        return subject.model


def _converted(
    signature: Signature, program: "ExportedProgram", rows: int, modules: Sequence[str]
) -> tuple[Any, dict[str, list[str]]]:
    """The program as an OpenVINO model with the shapes and names of the signature, and the nodes of each of these modules."""
    import openvino as ov
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder

    logging.getLogger("root").setLevel(
        logging.ERROR
    )  # it warns, with a traceback, of operators that torch no longer has
    decoder = TorchFXPythonDecoder.from_exported_program(program)
    model = ov.convert_model(decoder)
    if len(model.inputs) != len(signature.inputs):
        raise RuntimeError(f"the model has {len(model.inputs)} inputs after conversion, not {len(signature.inputs)}")
    for port, one in zip(model.inputs, signature.inputs, strict=True):
        port.get_tensor().set_names({one.name})
    if signature.outputs and len(signature.outputs) == len(model.outputs):
        for port, one in zip(model.outputs, signature.outputs, strict=True):
            port.get_tensor().set_names({one.name})
    shapes = {
        port: ov.PartialShape([-1 if length in (None, counts.ANY) else length for length in (rows, *one.shape)])
        for port, one in zip(model.inputs, signature.inputs, strict=True)
    }
    model.reshape(shapes)
    return model, {module: _nodes(model, decoder, module) for module in modules}


def _nodes(model: Any, decoder: Any, module: str) -> list[str]:
    """Names of what a module computes: each begins with the name of the node of the exported graph that it comes from."""
    within = set()
    for node in decoder.pt_module.graph.nodes:
        paths = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
        if any(path == module or path.startswith(f"{module}.") for path in paths):
            within.add(node.name)
    return [
        op.get_friendly_name()
        for op in model.get_ordered_ops()
        if op.get_type_name() not in GIVEN and op.get_friendly_name().split("/")[0] in within
    ]


def _quantised(subject: Exportable, model: Any, rows: int, names: dict[str, list[str]], *, preset: str) -> Any:
    import nncf

    nncf.set_log_level(logging.ERROR)
    inputs = [port.name for port in subject.signature.inputs]
    batches = counts.in_batches(subject.calibration(), rows if rows != counts.ANY else ROWS_AT_ONCE)
    samples = [dict(zip(inputs, map(np.ascontiguousarray, batch), strict=True)) for batch in batches]
    ignored = [name for found in names.values() for name in found]
    with contextlib.redirect_stdout(io.StringIO()):  # its bars of progress
        return nncf.quantize(
            model,
            nncf.Dataset(samples),
            preset=nncf.QuantizationPreset(preset),
            subset_size=len(samples),
            model_type=nncf.ModelType.TRANSFORMER if _attends(model) else None,
            ignored_scope=nncf.IgnoredScope(names=ignored) if ignored else None,
        )


def _attends(model: Any) -> bool:
    """Whether there is attention: without being told so, the quantiser rounds what it must not."""
    return any(op.get_type_name() in ("ScaledDotProductAttention", "Softmax") for op in _inner(model))


def _inner(model: Any) -> list[Any]:
    """All operators but a softmax that is an answer."""
    answers = {result.input_value(0).get_node().get_friendly_name() for result in model.get_results()}
    return [op for op in model.get_ordered_ops() if op.get_friendly_name() not in answers]


def _save(model: Any, path: Path) -> None:
    import openvino as ov

    ov.save_model(model, path, compress_to_fp16=False)


EXAMPLES = (Openvino(), Openvino("bf16"), Openvino("int8"), Openvino("int8", "mixed"))
