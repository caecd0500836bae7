"""TensorRT: what it needs, how an engine is built (on a stand-in that writes calls down), and, on a GPU, that it answers."""

import sys
import types

import numpy as np
import pytest
import torch

from netdyno.records.deployment import Running
from netdyno.runtimes import _base as base
from netdyno.runtimes import tensorrt as module
from netdyno.runtimes._trtexec import Profile
from netdyno.runtimes.tensorrt import Tensorrt, built, profiles
from runtimes.specimens import arrays_of, decibels, expected, exportable, images, release, traits_of


def test_it_says_that_it_needs_a_gpu_and_the_package(monkeypatch):
    monkeypatch.setattr(base, "_absent", lambda name: name == "tensorrt")
    monkeypatch.setattr(module, "CONTROLS", ("/nowhere",))
    assert Tensorrt().unavailable() == "it needs an NVIDIA GPU and the package `tensorrt`: pip install tensorrt"


def test_with_both_nothing_is_missing_and_without_the_gpu_the_gpu_is(monkeypatch, tmp_path):
    monkeypatch.setattr(base, "_absent", lambda name: False)
    monkeypatch.setattr(module, "CONTROLS", (str(tmp_path),))
    assert Tensorrt().unavailable() is None
    monkeypatch.setattr(module, "CONTROLS", ("/nowhere",))
    assert Tensorrt().unavailable() == "it needs an NVIDIA GPU"


def test_int8_is_refused_without_calibration_data():
    assert "calibration" in Tensorrt("int8").refuses(traits_of(release("Sentences"), calibration=False))
    assert Tensorrt("fp16").refuses(traits_of(release("Sentences"), calibration=False)) is None


def test_shapes_go_from_one_row_to_the_most_and_are_tuned_for_the_first():
    found = profiles(exportable("Pictures", batches=(4, 1, 16)))
    assert found == {"input": Profile((1, 3, 16, 16), (4, 3, 16, 16), (16, 3, 16, 16))}


class Written:
    """Stands in for whatever TensorRT has, and writes down what it is asked."""

    def __init__(self, calls, name="", *, parses=True):
        self.calls, self.name, self.parses = calls, name, parses

    def __getattr__(self, part):
        return Written(self.calls, f"{self.name}.{part}".lstrip("."), parses=self.parses)

    def __call__(self, *arguments):
        self.calls.append((self.name, arguments))
        if self.name.endswith("parse"):
            return self.parses
        if self.name.endswith("get_error"):
            return "an operator it does not know"
        return b"plan" if self.name.endswith("build_serialized_network") else self

    def __index__(self):
        return 4


def stand_in(monkeypatch, calls, **more):
    trt = types.SimpleNamespace(__version__="10.7.0.post1")
    fake = Written(calls, **more)
    for name in ("Logger", "Builder", "OnnxParser", "MemoryPoolType", "NetworkDefinitionCreationFlag"):
        setattr(trt, name, getattr(fake, name))
    trt.NetworkDefinitionCreationFlag = types.SimpleNamespace(STRONGLY_TYPED=1)
    trt.OnnxParser = lambda network, logger: types.SimpleNamespace(
        parse=fake.parse, num_errors=1, get_error=fake.get_error
    )
    monkeypatch.setitem(sys.modules, "tensorrt", trt)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))


def test_an_engine_is_built_from_the_file_with_its_shapes_and_memory(monkeypatch, tmp_path):
    calls = []
    stand_in(monkeypatch, calls)
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    shapes = {"input": Profile((1, 3), (4, 3), (8, 3))}
    assert built(tmp_path / "model.onnx", shapes, workspace_mib=64) == b"plan"
    asked = {name.rpartition(".")[2]: arguments for name, arguments in calls}
    assert asked["parse"] == (b"onnx",)
    assert asked["create_network"] == (2,)  # strongly typed
    assert asked["set_shape"] == ("input", (1, 3), (4, 3), (8, 3))
    assert asked["set_memory_pool_limit"][1] == 64 << 20
    assert [name.rpartition(".")[2] for name, _ in calls].index("add_optimization_profile") < len(calls) - 1


def test_what_the_parser_does_not_know_is_the_reason(monkeypatch, tmp_path):
    stand_in(monkeypatch, [], parses=False)
    (tmp_path / "model.onnx").write_bytes(b"onnx")
    with pytest.raises(RuntimeError, match="an operator it does not know"):
        built(tmp_path / "model.onnx", {})


def test_a_device_that_the_version_has_given_up_is_refused(monkeypatch, tmp_path):
    stand_in(monkeypatch, [])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 0))
    with pytest.raises(RuntimeError, match=r"7\.5 and up"):
        built(tmp_path / "model.onnx", {})


def test_an_engine_of_another_version_is_not_loaded(monkeypatch, tmp_path):
    stand_in(monkeypatch, [])
    (tmp_path / module.MADE).write_text("[[10, 3], 90]")
    with pytest.raises(RuntimeError, match=r"10\.3, and here is 10\.7"):
        Tensorrt().load(tmp_path, Running())


def test_half_takes_and_gives_float32():
    model = torch.nn.Linear(4, 2)
    half = module._in_half(model)
    assert {parameter.dtype for parameter in half.parameters()} == {torch.float16}
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    rows = torch.randn(3, 4)
    assert half(rows).dtype == torch.float32
    torch.testing.assert_close(half(rows), model(rows), atol=1e-2, rtol=1e-2)


@pytest.mark.slow
def test_int8_is_written_around_zero_with_biases_in_float(tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from netdyno.runtimes import _counts as counts
    from netdyno.runtimes import _onnx as onnx_files

    subject = exportable("Pictures")
    paths = onnx_files.write(subject, counts.graphs(subject), tmp_path, opset=onnx_files.newest_opset(quantised=True))
    onnx_files.quantised(paths, (), module._quantiser(subject))
    graph = onnx.load(paths[counts.ANY]).graph
    held = {one.name: onnx.numpy_helper.to_array(one) for one in graph.initializer}
    zeros = [held[node.input[2]] for node in graph.node if node.op_type == "QuantizeLinear"]
    assert zeros
    assert all(zero.dtype == np.int8 and not zero.any() for zero in zeros)
    assert not any(array.dtype == np.int32 for array in held.values())


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize(("precision", "least"), [("fp32", 60), ("fp16", 40), ("int8", 15)])
def test_on_a_gpu_it_answers_as_the_module_does(precision, least, tmp_path):
    runtime = Tensorrt(precision)
    if runtime.unavailable():
        pytest.skip(runtime.unavailable())
    runtime.export(exportable("Pictures", batches=(1, 8)), tmp_path)
    call = runtime.load(tmp_path, Running())
    for count in (1, 3, 8):
        tensors = (images(count, seed=9)[0],)
        assert decibels(call(arrays_of(tensors)), expected(release("Pictures"), tensors)) > least
