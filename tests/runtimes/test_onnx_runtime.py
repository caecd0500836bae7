"""ONNX Runtime: what is written, what is rounded, and how it is run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from netdyno.records.deployment import Running
from netdyno.runtimes import _base as base
from netdyno.runtimes import _onnx as onnx_files
from netdyno.runtimes.onnx_runtime import OnnxRuntime
from runtimes.specimens import (
    arrays_of,
    decibels,
    expected,
    exportable,
    images,
    release,
    rows,
    sentences,
    traits_of,
)

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def written(runtime, name, folder, **more):
    """Export in this process; gives the notes."""
    return runtime.export(exportable(name, **more), folder)


def graph(folder):
    return onnx.load(folder / "model.onnx").graph


def kinds(folder):
    return [node.op_type for node in graph(folder).node]


def rounded(folder, module):
    """Operators that multiply weights of a module, and whether those are rounded, by the operator's name."""
    model = onnx.load(folder / "model.onnx")
    makers = {output: node for node in model.graph.node for output in node.output}
    names = set(onnx_files.nodes_of(model, [module])[module])
    return {
        node.name: any(one in makers and makers[one].op_type == "DequantizeLinear" for one in node.input[1:2])
        for node in model.graph.node
        if node.name in names and node.op_type in ("Conv", "Gemm", "MatMul")
    }


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    assert written(OnnxRuntime(), "Pictures", folder) == ()
    return folder


@pytest.mark.parametrize("count", [1, 8, 16])
def test_a_float_model_answers_the_same_for_any_number_of_rows(plain, count):
    tensors = (images(count, seed=9)[0],)
    answers = OnnxRuntime().load(plain, Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Pictures"), tensors)) > 100


def test_constants_and_batch_norms_are_folded(plain):
    assert set(kinds(plain)) <= {"Conv", "Relu", "Add", "MaxPool", "ReduceMean", "Gemm"}


def test_inputs_outputs_and_rows_bear_the_names_of_the_signature(plain):
    session = ort.InferenceSession(str(plain / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [(one.name, one.shape) for one in session.get_inputs()] == [("input", ["rows", 3, 16, 16])]
    assert [(one.name, one.shape) for one in session.get_outputs()] == [("output0", ["rows", 10])]


def test_the_file_tells_nothing_of_where_it_was_made(plain):
    assert b"specimens.py" not in (plain / "model.onnx").read_bytes()


def test_the_newest_operator_set_is_taken_that_can_be_read(plain, monkeypatch):
    newest = onnx_files.newest_opset()
    assert onnx.load(plain / "model.onnx").opset_import[0].version == newest
    assert onnx_files.newest_opset(quantised=True) == min(newest, onnx_files.NEWEST_TO_QUANTISE)
    monkeypatch.setattr(onnx_files, "_read", lambda opset: opset <= newest - 1)
    assert onnx_files.newest_opset() == newest - 1


def test_an_operator_set_from_the_future_is_not_read():
    assert onnx_files._read(onnx_files.OLDEST_OPSET)
    assert not onnx_files._read(9999)


def test_one_allowed_number_of_rows_fixes_the_shape(plain):
    call = OnnxRuntime().load(plain, Running(batches=(2,)))
    assert call(arrays_of((images(2)[0],)))[0].shape == (2, 10)
    with pytest.raises(Exception, match=r"rows|dimension|shape|index: 0"):
        call(arrays_of((images(3)[0],)))


def test_a_number_of_rows_that_is_baked_in_is_told_and_kept(tmp_path):
    notes = written(OnnxRuntime(), "FixedRows", tmp_path, batches=(2,))
    assert "baked" in notes[0]
    assert [path.name for path in tmp_path.iterdir()] == ["model-2.onnx"]
    answers = OnnxRuntime().load(tmp_path, Running())(arrays_of((rows(2),)))
    assert decibels(answers, expected(release("FixedRows"), (rows(2),))) > 100


def test_a_branch_on_numbers_is_not_exported(tmp_path):
    with pytest.raises(Exception, match="data-dependent"):
        written(OnnxRuntime(), "BranchingRows", tmp_path)
    assert not list(tmp_path.iterdir())


def test_threads_and_spinning_are_as_told_and_operators_take_turns(plain, monkeypatch):
    seen = []
    whole = ort.InferenceSession

    def session(path, options, **more):
        seen.append(options)
        return whole(path, options, **more)

    monkeypatch.setattr(ort, "InferenceSession", session)
    for spinning in (True, False):
        OnnxRuntime().load(plain, Running(threads=2, spinning=spinning))
    assert [one.intra_op_num_threads for one in seen] == [2, 2]
    assert {one.execution_mode for one in seen} == {ort.ExecutionMode.ORT_SEQUENTIAL}
    assert [one.get_session_config_entry("session.intra_op.allow_spinning") for one in seen] == ["1", "0"]


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    written(OnnxRuntime("int8", ignored=("blocks.0.second",)), "Pictures", folder)
    return folder


def test_int8_rounds_convolutions_and_answers_alike(static):
    assert rounded(static, "stem.0") == dict.fromkeys(rounded(static, "stem.0"), True)
    assert len(rounded(static, "blocks")) == 4
    tensors = (images(16, seed=9)[0],)
    answers = OnnxRuntime("int8").load(static, Running())(arrays_of(tensors))
    assert 15 < decibels(answers, expected(release("Pictures"), tensors)) < 80


def test_ignored_modules_stay_in_float_also_where_a_batch_norm_was_folded(static):
    assert list(rounded(static, "blocks.0.second").values()) == [False]
    assert all(rounded(static, "blocks.2").values())
    assert all(rounded(static, "head").values())


def test_what_feeds_an_ignored_module_is_not_rounded_either(static):
    assert list(rounded(static, "blocks.0.first").values()) == [False]
    model = onnx.load(static / "model.onnx")
    (name,) = onnx_files.nodes_of(model, ["blocks.0.second"])["blocks.0.second"]
    fed = next(node.input[0] for node in model.graph.node if node.name == name)
    assert next(node.op_type for node in model.graph.node if fed in node.output) == "Relu"


class Outlier(torch.nn.Module):
    """One channel of what goes into the third layer is three thousand times larger, and its weights as much smaller."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = (torch.nn.Conv2d(wide, 8, 3, padding=1) for wide in (3, 8, 8))
        self.head = torch.nn.Linear(8, 10)
        with torch.no_grad():
            self.second.weight[0] *= 3000
            self.second.bias[0] *= 3000
            self.third.weight[:, 0] /= 3000

    def forward(self, x):
        return self.head(self.third(self.second(self.first(x).relu()).relu()).relu().mean((2, 3)))


@pytest.mark.slow
def test_a_layer_that_int8_ruins_is_named_and_in_float_it_ruins_nothing(tmp_path):
    from netdyno.shipping.sensitivity import keep_in_float, layer_noise

    model, calibration = Outlier().eval(), [(row[None],) for row in images(32, seed=3)[0]]
    kept = keep_in_float(layer_noise(model, calibration))
    assert kept == ("third",)
    subject = replace(exportable("Pictures"), model=model, calibration=lambda: calibration)
    tensors, found = (images(16, seed=9)[0],), {}
    for ignored in ((), kept):
        folder = tmp_path / f"kept{len(ignored)}"
        folder.mkdir()
        runtime = OnnxRuntime("int8", ignored=ignored)
        runtime.export(subject, folder)
        truth = arrays_of((model(*tensors).detach(),))
        found[ignored] = decibels(runtime.load(folder, Running())(arrays_of(tensors)), truth)
    assert found[kept] > found[()] + 10


def test_weights_have_a_scale_per_channel(static):
    initial = {one.name: one for one in graph(static).initializer}
    scales = [
        initial[n.input[1]] for n in graph(static).node if n.op_type == "DequantizeLinear" and n.input[1] in initial
    ]
    assert any(list(scale.dims) == [16] for scale in scales)


def test_a_name_that_no_node_has_is_told():
    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    assert onnx_files.kept_in_float(model, ["stem"]) == ([], ("no node comes from `stem`: nothing to keep in float",))


def test_a_module_is_not_taken_for_another_whose_name_begins_alike():
    assert onnx_files._within("block.1.weight", "block.1")
    assert not onnx_files._within("block.10.weight", "block.1")


def test_without_convolutions_only_products_with_weights_are_rounded(tmp_path):
    written(OnnxRuntime("int8"), "Sentences", tmp_path)
    for name in ("qkv", "out", "wide", "narrow", "head"):
        assert list(rounded(tmp_path, name).values()) == [True]
    assert kinds(tmp_path).count("QuantizeLinear") == 5  # what goes into these, and none of their answers
    tensors = sentences(5, seed=8)
    answers = OnnxRuntime("int8").load(tmp_path, Running())(arrays_of(tensors))
    assert decibels(answers, expected(release("Sentences"), tensors)) > 25


def test_dynamic_int8_takes_ranges_from_each_call_and_keeps_ignored_modules(tmp_path):
    written(OnnxRuntime("int8", "dynamic", ("wide", "head")), "Sentences", tmp_path)
    assert kinds(tmp_path).count("MatMulInteger") == 3  # qkv, out, narrow
    tensors = sentences(5, seed=8)
    answers = OnnxRuntime("int8", "dynamic").load(tmp_path, Running())(arrays_of(tensors))
    assert 30 < decibels(answers, expected(release("Sentences"), tensors)) < 100


@pytest.mark.parametrize(("flags", "most"), [(("avx2",), 64), (("avx2", "avx512_vnni"), 127)])
def test_weights_get_seven_bits_where_eight_would_overflow(flags, most, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(base, "processor_flags", lambda: flags)
    subject = exportable("Pictures")
    onnx_files.quantised({0: _copied(plain / "model.onnx", tmp_path)}, (), OnnxRuntime("int8")._quantiser(subject))
    weights = [onnx.numpy_helper.to_array(one) for one in graph(tmp_path).initializer]
    largest = max(int(np.abs(one.astype(int)).max()) for one in weights if one.dtype == np.int8 and one.ndim == 4)
    assert largest in (most, most - 1)


def _copied(path, folder):
    (folder / path.name).write_bytes(path.read_bytes())
    return folder / path.name


def test_calibration_rows_come_in_the_number_that_the_graph_takes():
    subject = exportable("Sentences")
    reader = onnx_files.Reader(subject, 3)
    batches = list(iter(reader.get_next, None))
    assert [batch["words"].shape for batch in batches] == [(3, 12)] * 3
    assert reader.get_next() is None
    reader.rewind()
    again = reader.get_next()
    assert np.array_equal(again["words"], batches[0]["words"])
    assert torch.equal(torch.from_numpy(again["mask"]), subject.example[1][:3])


def test_it_refuses_what_cannot_pay():
    pictures = traits_of(release("Pictures"))
    assert "convolutions" in OnnxRuntime("int8", "dynamic").refuses(pictures)
    assert OnnxRuntime("int8").refuses(pictures) is None
    blind = traits_of(release("Sentences"), calibration=False)
    assert "calibration" in OnnxRuntime("int8").refuses(blind)
    assert OnnxRuntime("int8", "dynamic").refuses(blind) is None
