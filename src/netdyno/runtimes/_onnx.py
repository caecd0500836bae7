"""ONNX files: written from a module, with nodes that can be found by module name, and quantised after training."""

import ast
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netdyno.runtimes._base import Exportable
from netdyno.runtimes._counts import ANY, Graphs, file_for, in_batches

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto
    from torch.export import ExportedProgram

SUFFIX = ".onnx"
MULTIPLIES = ("Conv", "ConvTranspose", "Gemm", "MatMul")
ROWS = "rows"  # the name of the dimension that counts rows
# From 23 on attention is one operator, which quantisers leave whole; up to here it is products that they can round.
NEWEST_TO_QUANTISE = 21
# What every release of the exporter writes; newer ones are tried first.
OLDEST_OPSET = 18
SCOPES = "pkg.torch.onnx.name_scopes"  # where the exporter keeps the modules a node came from
# A protobuf message ends at 2 GiB; weights beyond this lie in a file of their own.
LARGEST_IN_ONE_FILE = 1_500_000_000
# Rows that calibration shows at once: fewer calls, the same extremes.
ROWS_AT_ONCE = 16


def newest_opset(*, quantised: bool = False) -> int:
    """The newest operator set that the exporter writes and ONNX Runtime reads."""
    from torch.onnx import _constants as constants  # the exporter's limit is told nowhere else

    written = int(getattr(constants, "ONNX_MAX_OPSET", OLDEST_OPSET))
    if quantised:
        written = min(written, NEWEST_TO_QUANTISE)
    return next((opset for opset in range(written, OLDEST_OPSET, -1) if _read(opset)), OLDEST_OPSET)


def _read(opset: int) -> bool:
    import onnxruntime
    from onnx import TensorProto, helper

    one = helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])
    two = helper.make_tensor_value_info("b", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Identity", ["a"], ["b"])], "probe", [one], [two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:
        return False
    return True


def write(subject: Exportable, graphs: Graphs, folder: Path, *, opset: int) -> dict[int, Path]:
    """One file per graph; gives them by the number of rows they take."""
    paths = {rows: file_for(folder, SUFFIX, rows) for rows in graphs.by_rows}
    for rows, program in graphs.by_rows.items():
        _write(subject, program, paths[rows], opset=opset)
    return paths


def _write(subject: Exportable, program: "ExportedProgram", path: Path, *, opset: int) -> None:
    import onnx
    import torch

    outputs = [port.name for port in subject.signature.outputs] or None
    written = torch.onnx.export(
        program,
        dynamo=True,
        opset_version=opset,
        input_names=[port.name for port in subject.signature.inputs],
        output_names=outputs,
        verbose=False,
        optimize=True,  # folds constants, and batch norms into the convolutions before them
    )
    assert written is not None
    model = written.model_proto
    _named(model)
    large = sum(parameter.numel() * parameter.element_size() for parameter in program.state_dict.values())
    onnx.save(model, path, save_as_external_data=large > LARGEST_IN_ONE_FILE, location=f"{path.name}.data")


def _named(model: "ModelProto") -> None:
    """Call the dimension that counts rows `rows`, and leave out where on this machine each line of the model lies."""
    symbol = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    for node in model.graph.node:
        kept = [one for one in node.metadata_props if one.key == SCOPES]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    if not symbol:
        return
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = re.sub(rf"\b{re.escape(symbol)}\b", ROWS, dimension.dim_param)


def nodes_of(model: "ModelProto", modules: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The names of the nodes that come from each of these modules or from modules within it.

    A node is known by the exporter's scopes, or by whose weights it multiplies: a convolution that a batch norm was folded into
    bears the scope of the norm.
    """
    return {
        module: tuple(node.name for node in model.graph.node if any(_within(one, module) for one in _origins(node)))
        for module in modules
    }


def _origins(node: "NodeProto") -> tuple[str, ...]:
    scopes = next((one.value for one in node.metadata_props if one.key == SCOPES), "[]")
    return (*ast.literal_eval(scopes), *node.input)


def _within(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def kept_in_float(model: "ModelProto", ignored: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Nodes a quantiser must leave alone so that these modules stay in float, and notes on modules that have no node."""
    found = nodes_of(model, ignored)
    lost = tuple(f"no node comes from `{module}`: nothing to keep in float" for module in ignored if not found[module])
    names = [name for nodes in found.values() for name in nodes]
    # A dynamic quantiser first turns a Gemm into a product and a sum, and names the product so.
    return names + [f"{name}_MatMul" for name in names], lost


def feeding(path: Path, names: Sequence[str]) -> list[str]:
    """The nodes whose answers go into these: were they rounded, what must stay in float would be fed with it.

    From each back through what has one source (activations, pooling) to what multiplies or joins, and that too.
    """
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    makers = {output: node for node in graph.node for output in node.output}
    kept = set(names)
    waiting = [one for node in graph.node if node.name in kept for one in node.input]
    found: dict[str, None] = {}
    while waiting:
        node = makers.get(waiting.pop())
        if node is None or node.name in kept or node.name in found:
            continue
        found[node.name] = None
        sources = [one for one in node.input if one in makers]
        if node.op_type not in MULTIPLIES and len(sources) == 1:
            waiting += sources
    return list(found)


def of_activations(path: Path) -> list[str]:
    """The names of products whose second factor is no weight."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {one.name for one in graph.initializer}
    return [node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] not in weights]


class Reader:
    """Hands calibration rows to a quantiser of ONNX Runtime, and can begin again."""

    def __init__(self, subject: Exportable, rows: int) -> None:
        self.subject = subject
        self.rows = rows
        self.names = [port.name for port in subject.signature.inputs]
        self.given: Iterator[dict[str, NDArray[Any]]] = iter(())
        self.rewind()

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """The next batch by input name, None at the end."""
        return next(self.given, None)

    def rewind(self) -> None:
        """Begin with the first row again."""
        rows = self.rows if self.rows != ANY else ROWS_AT_ONCE
        batches = in_batches(self.subject.calibration(), rows)
        self.given = (
            {name: np.ascontiguousarray(array) for name, array in zip(self.names, batch, strict=True)}
            for batch in batches
        )

    def set_range(self, start_index: int, end_index: int) -> None:
        """Part of a quantiser's contract for sets too large for memory; ours are small."""
        raise NotImplementedError("calibration is read as a whole")

    def __len__(self) -> int:
        return sum(1 for _ in self.subject.calibration())


Quantise = Callable[[Path, Path, int, list[str]], None]


def quantised(paths: dict[int, Path], ignored: Sequence[str], quantise: Quantise) -> tuple[str, ...]:
    """Replace each file by its quantised form: shapes are inferred first, `ignored` modules are left alone. Gives notes."""
    import onnx

    notes: tuple[str, ...] = ()
    for rows, path in paths.items():
        excluded, notes = kept_in_float(onnx.load(path, load_external_data=False), ignored)
        with tempfile.TemporaryDirectory(dir=path.parent) as aside:
            prepared = Path(aside) / path.name
            _shaped(path, prepared)
            quantise(prepared, path, rows, excluded)
    return notes


def _shaped(source: Path, target: Path) -> None:
    """With the shape of every tensor written down; where symbols defeat the inference, without those it cannot tell."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    for skip in (False, True):
        try:
            # Not optimised by ONNX Runtime: its fusions rename nodes, and the exporter has folded what matters.
            quant_pre_process(str(source), str(target), skip_optimization=True, skip_symbolic_shape=skip)
        except Exception:
            if skip:
                raise
        else:
            return
