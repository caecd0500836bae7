"""What a person would type to ship a model with one tool, as its documentation shows it: each a side like any other in benchmarks/deploy.py.

    python benchmarks/ship_rivals.py export NAME REFERENCE FOLDER     # in a fresh process
    python benchmarks/ship_rivals.py serve                            # answers as netdyno's own children do

No thread count, no hint, no search: the tool's defaults, but for what its tutorial sets.
"""

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

from netdyno.runtimes import _base as base
from netdyno.runtimes import _child as child

CALIBRATION = 300  # NNCF's default; ONNX Runtime's examples take as many as there are


def _subject(reference):
    from netdyno.shipping.subject import opened

    return opened(reference)


def _calibration(subject):
    from netdyno.runtimes._export import calibration

    return itertools.islice(calibration(subject.release, subject.example, rows=CALIBRATION)(), CALIBRATION)


def _as_onnx(subject, folder):
    """The model for one row as ONNX, and the names of its inputs."""
    import torch

    names = [port.name for port in subject.signature.inputs]
    row = tuple(part[:1] for part in subject.example)
    torch.onnx.export(subject.model, row, folder / "model.onnx", input_names=names, dynamo=True)
    return names


def _session(file, running):
    """An ONNX Runtime session of a file, as a call."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = running.threads
    session = onnxruntime.InferenceSession(str(file), options)
    names = [each.name for each in session.get_inputs()]
    return lambda arrays: base.as_floats(session.run(None, dict(zip(names, arrays, strict=True))))


@dataclass(frozen=True)
class TorchCompile:
    """`torch.compile(model)`: the default backend and mode."""

    def export(self, subject, folder):
        (Path(folder) / "reference.txt").write_text(subject.reference)

    def load(self, folder, running):
        import torch

        torch.set_num_threads(running.threads)
        subject = _subject((Path(folder) / "reference.txt").read_text())
        model = torch.compile(subject.model)

        def call(arrays):
            with torch.inference_mode():
                return base.as_floats([model(*map(torch.from_numpy, arrays)).numpy()])

        return call


@dataclass(frozen=True)
class OnnxRuntimeQuantised:
    """`torch.onnx.export`, `quant_pre_process`, `quantize_static` with its defaults, `InferenceSession`."""

    def export(self, subject, folder):
        from onnxruntime.quantization import CalibrationDataReader, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        folder = Path(folder)
        names = _as_onnx(subject, folder)
        quant_pre_process(str(folder / "model.onnx"), str(folder / "ready.onnx"))
        rows = iter(
            [{name: part.numpy() for name, part in zip(names, row, strict=True)} for row in _calibration(subject)]
        )

        class Reader(CalibrationDataReader):
            def get_next(self):
                return next(rows, None)

        quantize_static(str(folder / "ready.onnx"), str(folder / "int8.onnx"), Reader())

    def load(self, folder, running):
        return _session(Path(folder) / "int8.onnx", running)


@dataclass(frozen=True)
class NncfOpenvino:
    """`openvino.convert_model`, `nncf.quantize`, `compile_model("CPU")`; `model_type` for the transformer, as the tutorial says."""

    def export(self, subject, folder):
        import nncf
        import openvino as ov

        converted = ov.convert_model(
            subject.model, example_input=subject.example[0][:1] if len(subject.example) == 1 else subject.example
        )
        rows = [[part.numpy() for part in row] for row in _calibration(subject)]
        kind = (
            nncf.ModelType.TRANSFORMER
            if any("Attention" in type(m).__name__ for m in subject.model.modules())
            else None
        )
        made = nncf.quantize(converted, nncf.Dataset(rows), model_type=kind)
        ov.save_model(made, Path(folder) / "model.xml")

    def load(self, folder, running):
        import openvino as ov

        compiled = ov.Core().compile_model(
            str(Path(folder) / "model.xml"), "CPU", {"INFERENCE_NUM_THREADS": running.threads}
        )
        return lambda arrays: base.as_floats([compiled(list(arrays))[at] for at in range(len(compiled.outputs))])


@dataclass(frozen=True)
class Olive:
    """`olive run-pass --pass-name OnnxDynamicQuantization` on the exported model, and ONNX Runtime's defaults."""

    def export(self, subject, folder):
        import subprocess

        folder = Path(folder)
        _as_onnx(subject, folder)
        tool = Path(sys.executable).with_name("olive")
        subprocess.run(
            [tool, "run-pass", "--pass-name", "OnnxDynamicQuantization", "-m", folder / "model.onnx", "-o", folder / "olive",
             "--disable_telemetry"],
            check=True, timeout=600,
        )  # fmt: skip

    def load(self, folder, running):
        return _session(next((Path(folder) / "olive").rglob("*.onnx")), running)


RIVALS = {
    "torch-compile": TorchCompile,
    "onnx-runtime-quantised": OnnxRuntimeQuantised,
    "nncf-openvino": NncfOpenvino,
    "olive": Olive,
}


def _serve():
    """Answer as netdyno's children do, with the rivals among the ways to load."""
    known = base.read
    base.read = lambda change: RIVALS[change.id]() if change.id in RIVALS else known(change)
    child.main()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve()
    else:
        _, _, name, reference, folder = sys.argv
        RIVALS[name]().export(_subject(reference), folder)
