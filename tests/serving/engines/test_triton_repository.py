"""A model repository that a Triton server takes: every field is read back and looked at."""

import pytest

from netdyno.errors import NetdynoError
from netdyno.records.deployment import Port, Running, Signature
from netdyno.records.trial import Change
from netdyno.serving.engines import _base as engines
from netdyno.serving.engines import _text as text
from netdyno.serving.engines._base import Wanted
from netdyno.serving.engines.triton_repository import config, faults
from netdyno.shipping import package as packages
from serving.specimens import manifest, toys  # noqa: F401

ONNX = manifest(
    name="classifier",
    version="2.1",
    runtime=Change(id="onnx-runtime"),
    running=Running(batches=(1, 2, 4, 8)),
    signature=Signature(
        inputs=(Port(name="image", dtype="float32", shape=(3, 8, 8)), Port(name="size", dtype="int64", shape=())),
        outputs=(Port(name="scores", dtype="float32", shape=(10,)),),
    ),
)


def written(wanted=Wanted(largest=8, delay_s=0.0015)):  # noqa: B008  a tuple
    return config(ONNX, wanted, "onnxruntime")


def test_the_configuration_reads_back_as_what_was_meant():
    found = text.read(written())
    assert found["name"] == ["classifier"]
    assert found["backend"] == ["onnxruntime"]
    assert found["max_batch_size"] == [8]
    assert found["input"][0] == {"name": ["image"], "data_type": ["TYPE_FP32"], "dims": [3, 8, 8]}
    assert found["input"][1] == {"name": ["size"], "data_type": ["TYPE_INT64"], "dims": [1], "reshape": [{}]}
    assert found["output"] == [{"name": ["scores"], "data_type": ["TYPE_FP32"], "dims": [10]}]
    assert found["dynamic_batching"] == [{"preferred_batch_size": [2, 4, 8], "max_queue_delay_microseconds": [1500]}]
    assert [warm["batch_size"] for warm in found["model_warmup"]] == [[1], [2], [4], [8]]
    assert faults(written()) == []


def test_tritons_own_message_reads_it_too():
    proto = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="needs tritonclient[grpc]")
    from google.protobuf import text_format

    found = text_format.Parse(written(), proto.ModelConfig())
    assert list(found.input[0].dims) == [3, 8, 8]
    assert found.model_warmup[3].inputs["image"].zero_data
    assert list(found.dynamic_batching.preferred_batch_size) == [2, 4, 8]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max_batch_size: 8", "max_batch_size: 0", "max_batch_size is 0"),
        ("max_batch_size: 8", "max_batch_size: 4", "preferred_batch_size 8 is not within 1 and 4"),
        ("TYPE_FP32", "TYPE_FLOAT", "has the data_type ['TYPE_FLOAT']"),
        ("dims: 3", "dims: 0", "has the dimension 0"),
        ("dims: 3", "dims: -2", "has the dimension -2"),
        ("max_queue_delay_microseconds: 1500", "max_queue_delay_microseconds: -1", "microseconds is -1"),
        ('name: "size"', 'name: "image"', "stands there twice"),
        ("backend:", "backnd:", "`backnd` is no field"),
        ("count: 1", "count: 0", "has 0 instances"),
        ("input {", "input [", "cannot be read back"),
    ],
)
def test_what_a_server_would_refuse_is_found_here(old, new, words):
    assert any(words in fault for fault in faults(written().replace(old, new, 1))), faults(
        written().replace(old, new, 1)
    )


def test_the_layout_holds_the_model_under_the_name_that_the_backend_looks_for(tmp_path):
    artifact = tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "any.onnx").write_bytes(b"onnx")
    (artifact / "built.json").write_bytes(b"{}")
    import numpy as np

    rows = (np.zeros((1, 3, 8, 8), np.float32), np.zeros(1, np.int64))
    packages.write(tmp_path / "p", ONNX, artifact=artifact, inputs=rows, answers=(np.zeros((1, 10), np.float32),))
    found = packages.opened(tmp_path / "p")
    paths = engines.write(engines.named("triton-repository"), found, tmp_path / "repository", Wanted())
    names = {path.relative_to(tmp_path / "repository").as_posix() for path in paths}
    assert names == {"classifier/config.pbtxt", "classifier/2/model.onnx"}
    assert (tmp_path / "repository/classifier/2/model.onnx").read_bytes() == b"onnx"
    names = {path.name for path in engines.write(engines.named("ovms"), found, tmp_path / "ovms", Wanted())}
    assert names == {"config.json", "any.onnx"}


def test_a_runtime_without_a_backend_is_refused():
    from netdyno.serving.engines.triton_repository import backend_of

    with pytest.raises(NetdynoError, match="no backend"):
        backend_of(manifest())


def test_the_servers_shapes_leave_the_rows_open():
    from netdyno.serving.engines.ovms import config as ovms

    (model,) = ovms(ONNX, Wanted())["model_config_list"]
    assert model["config"]["shape"] == {"image": "(-1,3,8,8)", "size": "(-1)"}


@pytest.mark.parametrize("value", ['a"b', "back\\slash", "two\nlines", "plain"])
def test_text_comes_back_whatever_is_in_it(value):
    assert text.read(text.written([("name", value)])) == {"name": [value]}


@pytest.mark.parametrize(
    "broken", ["name", "name:", "name: {", "}", "a: 1 }", "a: [1", "a: $", "1: 2", "a { b: 1", "a 1"]
)
def test_what_is_no_configuration_is_refused(broken):
    with pytest.raises(ValueError):
        text.read(broken)
